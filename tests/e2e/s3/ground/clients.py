"""Clients as applications use them, behind one interface: do(op, key=…, …) gives an Answer and never raises for what
the client reports. `can` names the operations that a client has."""
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading

from bed.process import SLACK

from . import keys
from .child import die_with_parent

HERE = pathlib.Path(__file__).resolve().parents[1] / "clients"
SDK_OPS = {"put", "get", "head", "list", "create", "part", "complete", "copy", "delete_many", "presign", "once"}
PATIENCE = 60
STATUS_OF = {"PreconditionFailed": 412, "NoSuchKey": 404}  # where a program prints only the code


class Answer:
    def __init__(self, fields):
        self.ok, self.status, self.code = fields.get("ok", False), fields.get("status", 0), fields.get("code", "")
        self.message, self.fields = fields.get("message", ""), fields

    def __getitem__(self, name):
        return self.fields[name]

    def __bool__(self):
        return self.ok

    def __repr__(self):
        return f"<{'ok' if self.ok else 'failed'} {self.fields}>"


class LineClient:
    """A program that stays and answers JSON lines; calls may come from many threads."""

    name, can = "", SDK_OPS

    def __init__(self, endpoint, *args):
        self._ids, self._waiting, self._lock = itertools.count(1), {}, threading.Lock()
        self.stderr = open(os.path.join(keys.scratch(), f"{self.name}.stderr"), "ab")
        self._popen = subprocess.Popen(self.argv(endpoint, *args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=self.stderr, env=keys.client_env(),
                                       preexec_fn=die_with_parent)
        threading.Thread(target=self._read, daemon=True).start()

    def argv(self, endpoint, *args):
        raise NotImplementedError

    def _read(self):
        for line in self._popen.stdout:
            fields = json.loads(line)
            with self._lock:
                box = self._waiting.pop(fields["id"])
            box["fields"] = fields
            box["done"].set()
        with self._lock:
            for box in self._waiting.values():
                box["done"].set()

    def do(self, op, **fields):
        box = {"done": threading.Event()}
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = box
            self._popen.stdin.write(json.dumps({"id": number, "op": op, "bucket": keys.BUCKET, **fields}).encode() + b"\n")
            self._popen.stdin.flush()
        assert box["done"].wait(PATIENCE * SLACK), f"{self.name} gave no answer to {op} {fields} in {PATIENCE} s"
        assert "fields" in box, f"{self.name} ended (exit {self._popen.poll()}); see {self.stderr.name}"
        return Answer(box["fields"])

    def close(self):
        self._popen.stdin.close()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self.stderr.close()


class Boto(LineClient):
    name, can = "boto3", SDK_OPS | {"upload"}

    def argv(self, endpoint, *args):
        python = os.path.join(keys.installed("FAIRLEAD_S3_PY"), "bin", "python")
        return [python, str(HERE / "boto_client.py"), endpoint, *args]


class Js(LineClient):
    name, can = "js-v3", SDK_OPS | {"stream"}

    def argv(self, endpoint, *args):
        keys.installed("FAIRLEAD_S3_JS")
        return ["node", str(HERE / "js" / "client.mjs"), endpoint, *args]


class CommandClient:
    """A program per operation."""

    name, can = "", set()

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def run(self, *argv, env=None, stdin=None, hashed=False):
        """Runs to the end. `hashed`: stdout is an object, its SHA-256 is what matters."""
        done = subprocess.run(argv, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=PATIENCE * SLACK,
                              env=keys.client_env(**(env or {})), preexec_fn=die_with_parent,
                              check=False)
        if done.returncode != 0:
            text = done.stderr.decode("utf-8", "replace")
            match = re.search(r"status code: (\d{3})|An error occurred \((\w+)\)", text)
            word = (match[1] or match[2]) if match else ""
            return Answer({"ok": False, "status": STATUS_OF.get(word) or (int(word) if word.isdigit() else 0),
                           "code": word or f"exit {done.returncode}", "message": text[-600:]})
        if hashed:
            return Answer({"ok": True, "sha256": hashlib.sha256(done.stdout).hexdigest(), "size": len(done.stdout)})
        return Answer({"ok": True, "text": done.stdout.decode("utf-8", "replace")})

    def do(self, op, **fields):
        return getattr(self, "do_" + op)(**fields)

    def close(self):
        pass


class Rclone(CommandClient):
    """Debian's rclone. Its own retries are off; it looks at an object before and after each write."""

    name, can = "rclone", {"put", "stream", "get", "head", "list", "upload", "copy", "delete_many", "presign_get"}

    def where(self, key=""):
        return (f":s3,provider=Other,env_auth=true,endpoint='{self.endpoint}',region={keys.REGION},force_path_style=true,"
                f"no_check_bucket=true,list_version=2:{keys.BUCKET}/{key}")

    def rclone(self, *args, **keywords):
        return self.run("rclone", "--retries", "1", "--low-level-retries", "1", *args, env={"RCLONE_CONFIG": os.devnull},
                        **keywords)

    def do_put(self, key, file):
        return self.rclone("copyto", "--no-check-dest", file, self.where(key))

    def do_upload(self, key, file):
        return self.rclone("copyto", "--no-check-dest", "--s3-upload-cutoff", "5Mi", "--s3-chunk-size", "5Mi",
                           "--s3-upload-concurrency", "3", file, self.where(key))

    def do_stream(self, key, file):
        with open(file, "rb") as f:
            return self.rclone("rcat", "--streaming-upload-cutoff", "8Mi", self.where(key), stdin=f)

    def do_get(self, key, range=None):
        if not range:
            return self.rclone("cat", self.where(key), hashed=True)
        first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", range).groups())
        return self.rclone("cat", "--offset", str(first), "--count", str(last - first + 1), self.where(key), hashed=True)

    def do_head(self, key):
        answer = self.rclone("size", "--json", self.where(key))
        if answer:
            answer.fields["size"] = json.loads(answer["text"])["bytes"]
        return answer

    def do_list(self, prefix, page):
        answer = self.rclone("lsf", "-R", "--files-only", "--s3-list-chunk", str(page), self.where(prefix))
        if answer:
            answer.fields["keys"] = [prefix + line for line in answer["text"].splitlines()]
        return answer

    def do_copy(self, key, source):
        return self.rclone("copyto", self.where(source), self.where(key))

    def do_delete_many(self, keys):
        answer = None
        for folder in sorted({key.rpartition("/")[0] for key in keys}):
            answer = self.rclone("delete", self.where(folder))
            if not answer:
                return answer
        answer.fields["deleted"] = len(keys)
        answer.fields["errors"] = []
        return answer

    def do_presign(self, key, method):
        assert method == "GET"
        answer = self.rclone("link", "--expire", "5m", self.where(key))
        if answer:
            answer.fields["url"] = answer["text"].strip()
        return answer


class AwsCli(CommandClient):
    """The AWS command line, version 1: `aws s3` for its own transfers, `aws s3api` for the rest."""

    name = "awscli"
    can = {"put", "get", "head", "list", "upload", "copy", "delete_many", "presign_get", "once", "stream"}

    def aws(self, *args, **keywords):
        python = os.path.join(keys.installed("FAIRLEAD_S3_AWSCLI"), "bin", "python")
        return self.run(python, "-m", "awscli", "--endpoint-url", self.endpoint, "--output", "json", *args,
                        env={"AWS_CONFIG_FILE": str(HERE / "aws.config")}, **keywords)

    def api(self, operation, *args):
        answer = self.aws("s3api", operation, "--bucket", keys.BUCKET, *args)
        if answer:
            text = answer["text"].strip()
            answer.fields["data"] = json.loads(text) if text else {}
        return answer

    def do_put(self, key, file, once=False):
        return self.api("put-object", "--key", key, "--body", file, *(["--if-none-match", "*"] if once else []))

    def do_upload(self, key, file):
        return self.aws("s3", "cp", "--no-progress", file, f"s3://{keys.BUCKET}/{key}")

    def do_stream(self, key, file):
        with open(file, "rb") as f:
            return self.aws("s3", "cp", "--no-progress", "-", f"s3://{keys.BUCKET}/{key}", stdin=f)

    def do_get(self, key, range=None):
        with tempfile.NamedTemporaryFile(dir=keys.scratch()) as f:
            answer = self.api("get-object", "--key", key, *(["--range", range] if range else []), f.name)
            if answer:
                data = pathlib.Path(f.name).read_bytes()
                answer.fields.update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
            return answer

    def do_head(self, key):
        answer = self.api("head-object", "--key", key)
        if answer:
            answer.fields["size"] = answer["data"]["ContentLength"]
        return answer

    def do_list(self, prefix, page):
        answer = self.api("list-objects-v2", "--prefix", prefix, "--page-size", str(page))
        if answer:
            answer.fields["keys"] = [o["Key"] for o in answer["data"].get("Contents", [])]
        return answer

    def do_copy(self, key, source):
        return self.api("copy-object", "--key", key, "--copy-source", f"{keys.BUCKET}/{source}")  # it escapes

    def do_delete_many(self, keys):
        answer = self.api("delete-objects", "--delete", json.dumps({"Objects": [{"Key": key} for key in keys]}))
        if answer:
            answer.fields.update(deleted=len(answer["data"].get("Deleted", [])), errors=answer["data"].get("Errors", []))
        return answer

    def do_presign(self, key, method):
        assert method == "GET"
        answer = self.aws("s3", "presign", f"s3://{keys.BUCKET}/{key}")
        if answer:
            answer.fields["url"] = answer["text"].strip()
        return answer


class GoV2(LineClient):
    name = "go-v2"

    def argv(self, endpoint, *args):
        return [os.path.join(keys.installed("FAIRLEAD_S3_GO"), "awsv2"), endpoint, *args]


class MinioGo(LineClient):
    """The one that sends signed chunks over plain HTTP."""

    name, can = "minio-go", SDK_OPS | {"upload"}

    def argv(self, endpoint, *args):
        return [os.path.join(keys.installed("FAIRLEAD_S3_GO"), "minio"), endpoint, *args]


class JavaV2(LineClient):
    name = "java-v2"

    def argv(self, endpoint, *args):
        folder = keys.installed("FAIRLEAD_S3_JAVA")
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                f"{folder}/target/classes:{folder}/target/lib/*", "Client", endpoint, *args]


EVERY_RUN = [Boto, Js, Rclone]
LONG_RUN = [AwsCli, GoV2, MinioGo, JavaV2]


def is_long():
    return bool(os.environ.get("FAIRLEAD_E2E_LONG"))
