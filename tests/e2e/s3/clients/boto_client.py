"""boto3 as a line client: one JSON request a line on stdin, one JSON answer a line on stdout, many in flight.
usage: boto_client.py ENDPOINT [RETRY_MODE MAX_ATTEMPTS]"""
import concurrent.futures
import hashlib
import json
import sys
import threading

import boto3
import botocore.exceptions
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

MIB = 1 << 20
endpoint = sys.argv[1]
retries = {"retries": {"mode": sys.argv[2], "total_max_attempts": int(sys.argv[3])}} if len(sys.argv) > 2 else {}
s3 = boto3.client("s3", endpoint_url=endpoint,
                  config=Config(signature_version="s3v4", s3={"addressing_style": "path"},
                                max_pool_connections=16, **retries))


def digest(body):
    sha, size = hashlib.sha256(), 0
    for piece in body.iter_chunks(256 * 1024):
        sha.update(piece)
        size += len(piece)
    return {"sha256": sha.hexdigest(), "size": size}


def put(q):
    with open(q["file"], "rb") as f:
        answer = s3.put_object(Bucket=q["bucket"], Key=q["key"], Body=f, **({"IfNoneMatch": "*"} if q.get("once") else {}))
    return {"etag": answer["ETag"]}


def get(q):
    return digest(s3.get_object(Bucket=q["bucket"], Key=q["key"], **({"Range": q["range"]} if "range" in q else {}))["Body"])


def head(q):
    return {"size": s3.head_object(Bucket=q["bucket"], Key=q["key"])["ContentLength"]}


def list_(q):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=q["bucket"], Prefix=q["prefix"],
                                                         PaginationConfig={"PageSize": q["page"]})
    return {"keys": [o["Key"] for page in pages for o in page.get("Contents", [])]}


def upload(q):
    s3.upload_file(q["file"], q["bucket"], q["key"], Config=TransferConfig(
        multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3))
    return {}


def create(q):
    return {"upload": s3.create_multipart_upload(Bucket=q["bucket"], Key=q["key"])["UploadId"]}


def part(q):
    with open(q["file"], "rb") as f:
        return {"etag": s3.upload_part(Bucket=q["bucket"], Key=q["key"], UploadId=q["upload"], PartNumber=q["part"],
                                       Body=f)["ETag"]}


def complete(q):
    parts = [{"PartNumber": i + 1, "ETag": e} for i, e in enumerate(q["etags"])]
    s3.complete_multipart_upload(Bucket=q["bucket"], Key=q["key"], UploadId=q["upload"], MultipartUpload={"Parts": parts})
    return {}


def copy(q):
    s3.copy_object(Bucket=q["bucket"], Key=q["key"], CopySource={"Bucket": q["bucket"], "Key": q["source"]})
    return {}


def delete_many(q):
    answer = s3.delete_objects(Bucket=q["bucket"], Delete={"Objects": [{"Key": k} for k in q["keys"]]})
    return {"deleted": len(answer.get("Deleted", [])), "errors": answer.get("Errors", [])}


def presign(q):
    return {"url": s3.generate_presigned_url({"GET": "get_object", "PUT": "put_object"}[q["method"]],
                                             {"Bucket": q["bucket"], "Key": q["key"]})}


OPS = {"put": put, "get": get, "head": head, "list": list_, "upload": upload, "create": create, "part": part,
       "complete": complete, "copy": copy, "delete_many": delete_many, "presign": presign}
out = threading.Lock()


def answer(q):
    try:
        r = {"ok": True, **OPS[q["op"]](q)}
    except botocore.exceptions.ClientError as e:
        error, meta = e.response.get("Error", {}), e.response.get("ResponseMetadata", {})
        r = {"ok": False, "status": meta.get("HTTPStatusCode", 0), "code": error.get("Code", ""), "message": str(e),
             "request_id": meta.get("RequestId"), "retries": meta.get("RetryAttempts"), "error": error}
    except Exception as e:  # what the SDK throws is what the application sees
        r = {"ok": False, "status": 0, "code": type(e).__name__, "message": str(e)}
    with out:
        print(json.dumps({"id": q["id"], **r}), flush=True)


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for line in sys.stdin:
        pool.submit(answer, json.loads(line))
