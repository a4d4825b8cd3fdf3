// AWS SDK for Java v2 as a line client: one JSON request a line on stdin, one JSON answer a line on stdout, many in
// flight. usage: java -cp … Client ENDPOINT
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

public class Client {
  static S3Client s3;
  static S3Presigner presigner;

  static String quote(String s) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : (s == null ? "" : s).toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    return out.append('"').toString();
  }

  static String strings(List<String> all) {
    return all.stream().map(Client::quote).collect(Collectors.joining(",", "[", "]"));
  }

  static String text(JsonNode q, String name) {
    return q.field(name).map(JsonNode::text).orElse(null);
  }

  static int number(JsonNode q, String name) {
    return Integer.parseInt(q.field(name).get().asNumber());
  }

  static List<String> list(JsonNode q, String name) {
    return q.field(name).get().asArray().stream().map(JsonNode::text).toList();
  }

  static String get(String bucket, String key, String range) throws Exception {
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    long size = 0;
    try (InputStream body = s3.getObject(b -> b.bucket(bucket).key(key).range(range))) {
      byte[] piece = new byte[1 << 16];
      for (int n; (n = body.read(piece)) > 0; size += n) sha.update(piece, 0, n);
    }
    return ",\"sha256\":" + quote(HexFormat.of().formatHex(sha.digest())) + ",\"size\":" + size;
  }

  // The fields of a good answer.
  static String run(JsonNode q) throws Exception {
    String bucket = text(q, "bucket"), key = text(q, "key"), upload = text(q, "upload"), file = text(q, "file");
    switch (text(q, "op")) {
      case "put": {
        boolean once = q.field("once").isPresent();
        s3.putObject(b -> b.bucket(bucket).key(key).ifNoneMatch(once ? "*" : null), RequestBody.fromFile(Path.of(file)));
        return "";
      }
      case "get":
        return get(bucket, key, text(q, "range"));
      case "head":
        return ",\"size\":" + s3.headObject(b -> b.bucket(bucket).key(key)).contentLength();
      case "list": {
        List<String> keys = new ArrayList<>();
        s3.listObjectsV2Paginator(b -> b.bucket(bucket).prefix(text(q, "prefix")).maxKeys(number(q, "page")))
            .contents().forEach(o -> keys.add(o.key()));
        return ",\"keys\":" + strings(keys);
      }
      case "create":
        return ",\"upload\":" + quote(s3.createMultipartUpload(b -> b.bucket(bucket).key(key)).uploadId());
      case "part":
        return ",\"etag\":" + quote(s3.uploadPart(b -> b.bucket(bucket).key(key).uploadId(upload)
            .partNumber(number(q, "part")), RequestBody.fromFile(Path.of(file))).eTag());
      case "complete": {
        List<CompletedPart> parts = new ArrayList<>();
        for (String etag : list(q, "etags")) {
          parts.add(CompletedPart.builder().partNumber(parts.size() + 1).eTag(etag).build());
        }
        s3.completeMultipartUpload(b -> b.bucket(bucket).key(key).uploadId(upload).multipartUpload(m -> m.parts(parts)));
        return "";
      }
      case "copy":
        s3.copyObject(b -> b.sourceBucket(bucket).sourceKey(text(q, "source")).destinationBucket(bucket)
            .destinationKey(key));
        return "";
      case "delete_many": {
        List<ObjectIdentifier> all = list(q, "keys").stream().map(k -> ObjectIdentifier.builder().key(k).build()).toList();
        var r = s3.deleteObjects(b -> b.bucket(bucket).delete(d -> d.objects(all)));
        return ",\"deleted\":" + r.deleted().size() + ",\"errors\":"
            + strings(r.errors().stream().map(Object::toString).toList());
      }
      case "presign": {
        Duration for_ = Duration.ofMinutes(5);
        var url = text(q, "method").equals("GET")
            ? presigner.presignGetObject(p -> p.signatureDuration(for_).getObjectRequest(b -> b.bucket(bucket).key(key))).url()
            : presigner.presignPutObject(p -> p.signatureDuration(for_).putObjectRequest(b -> b.bucket(bucket).key(key))).url();
        return ",\"url\":" + quote(url.toString());
      }
      default:
        throw new IllegalArgumentException(text(q, "op"));
    }
  }

  static void answer(JsonNode q) {
    String rest;
    try {
      rest = ",\"ok\":true" + run(q);
    } catch (AwsServiceException e) {
      rest = ",\"ok\":false,\"status\":" + e.statusCode() + ",\"code\":" + quote(e.awsErrorDetails().errorCode())
          + ",\"message\":" + quote(e.getMessage()) + ",\"request_id\":" + quote(e.requestId());
    } catch (Throwable e) { // what the SDK throws is what the application sees
      rest = ",\"ok\":false,\"status\":0,\"code\":" + quote(e.getClass().getSimpleName()) + ",\"message\":" + quote(e.toString());
    }
    synchronized (System.out) {
      System.out.println("{\"id\":" + number(q, "id") + rest + "}");
      System.out.flush();
    }
  }

  public static void main(String[] args) throws Exception {
    URI endpoint = URI.create(args[0]);
    s3 = S3Client.builder().endpointOverride(endpoint).forcePathStyle(true).build();
    presigner = S3Presigner.builder().endpointOverride(endpoint)
        .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build()).build();
    ExecutorService pool = Executors.newFixedThreadPool(8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      JsonNode q = JsonNode.parser().parse(line);
      pool.submit(() -> answer(q));
    }
    System.exit(0);
  }
}
