// AWS SDK for JavaScript v3 as a line client: one JSON request a line on stdin, one JSON answer a line on stdout.
// usage: node client.mjs ENDPOINT     (the packages are in the folder that FAIRLEAD_S3_JS names)
import { createHash } from "node:crypto";
import { createReadStream, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.env.FAIRLEAD_S3_JS + "/");
const sdk = require("@aws-sdk/client-s3");
const { getSignedUrl } = require("@aws-sdk/s3-request-presigner");

const s3 = new sdk.S3Client({ endpoint: process.argv[2], forcePathStyle: true });
// a presigned PUT with the default would carry the checksum of an empty body
const presigner = new sdk.S3Client({ endpoint: process.argv[2], forcePathStyle: true, requestChecksumCalculation: "WHEN_REQUIRED" });
const at = (q) => ({ Bucket: q.bucket, Key: q.key });

const ops = {
  async put(q) {
    const r = await s3.send(new sdk.PutObjectCommand({ ...at(q), Body: readFileSync(q.file), ...(q.once && { IfNoneMatch: "*" }) }));
    return { etag: r.ETag };
  },
  // a body whose hash is not known before: aws-chunked with a trailer, inside Transfer-Encoding: chunked
  async stream(q) {
    await s3.send(new sdk.PutObjectCommand({ ...at(q), Body: createReadStream(q.file), ContentLength: statSync(q.file).size }));
    return {};
  },
  async get(q) {
    const r = await s3.send(new sdk.GetObjectCommand({ ...at(q), Range: q.range }));
    const sha = createHash("sha256");
    let size = 0;
    for await (const piece of r.Body) {
      sha.update(piece);
      size += piece.length;
    }
    return { sha256: sha.digest("hex"), size };
  },
  async head(q) {
    return { size: (await s3.send(new sdk.HeadObjectCommand(at(q)))).ContentLength };
  },
  async list(q) {
    const keys = [];
    for await (const page of sdk.paginateListObjectsV2({ client: s3, pageSize: q.page }, { Bucket: q.bucket, Prefix: q.prefix })) {
      keys.push(...(page.Contents ?? []).map((o) => o.Key));
    }
    return { keys };
  },
  async create(q) {
    return { upload: (await s3.send(new sdk.CreateMultipartUploadCommand(at(q)))).UploadId };
  },
  async part(q) {
    const r = await s3.send(new sdk.UploadPartCommand({ ...at(q), UploadId: q.upload, PartNumber: q.part, Body: readFileSync(q.file) }));
    return { etag: r.ETag };
  },
  async complete(q) {
    const Parts = q.etags.map((ETag, i) => ({ PartNumber: i + 1, ETag }));
    await s3.send(new sdk.CompleteMultipartUploadCommand({ ...at(q), UploadId: q.upload, MultipartUpload: { Parts } }));
    return {};
  },
  async copy(q) {
    const CopySource = `${q.bucket}/${q.source.split("/").map(encodeURIComponent).join("/")}`;
    await s3.send(new sdk.CopyObjectCommand({ ...at(q), CopySource }));
    return {};
  },
  async delete_many(q) {
    const r = await s3.send(new sdk.DeleteObjectsCommand({ Bucket: q.bucket, Delete: { Objects: q.keys.map((Key) => ({ Key })) } }));
    return { deleted: (r.Deleted ?? []).length, errors: r.Errors ?? [] };
  },
  async presign(q) {
    const command = q.method === "GET" ? new sdk.GetObjectCommand(at(q)) : new sdk.PutObjectCommand(at(q));
    return { url: await getSignedUrl(presigner, command, { expiresIn: 300 }) };
  },
};

async function answer(q) {
  let r;
  try {
    r = { ok: true, ...(await ops[q.op](q)) };
  } catch (e) {
    r = { ok: false, status: e.$metadata?.httpStatusCode ?? 0, code: e.Code ?? e.code ?? e.name, message: `${e.name}: ${e.message}`, request_id: e.$metadata?.requestId };
  }
  process.stdout.write(JSON.stringify({ id: q.id, ...r }) + "\n");
}

createInterface({ input: process.stdin })
  .on("line", (line) => answer(JSON.parse(line)))
  .on("close", () => process.exit(0));
