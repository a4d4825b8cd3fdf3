// minio-go as a line client: signed chunks over plain HTTP, its own multipart uploads. usage: minio ENDPOINT
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"fairlead-e2e/line"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

var (
	ctx  = context.Background()
	core *minio.Core
)

func putSized(q *line.Request, options minio.PutObjectOptions) (line.Answer, error) {
	f, err := os.Open(q.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if q.Once {
		options.SetMatchETagExcept("*")
	}
	_, err = core.Client.PutObject(ctx, q.Bucket, q.Key, f, info.Size(), options)
	return nil, err
}

func put(q *line.Request) (line.Answer, error) {
	return putSized(q, minio.PutObjectOptions{DisableMultipart: true})
}

func upload(q *line.Request) (line.Answer, error) {
	return putSized(q, minio.PutObjectOptions{PartSize: 5 << 20, NumThreads: 3, ConcurrentStreamParts: false})
}

func get(q *line.Request) (line.Answer, error) {
	options := minio.GetObjectOptions{}
	if q.Range != "" {
		var first, last int64
		if _, err := fmt.Sscanf(q.Range, "bytes=%d-%d", &first, &last); err != nil {
			return nil, err
		}
		if err := options.SetRange(first, last); err != nil {
			return nil, err
		}
	}
	body, _, _, err := core.GetObject(ctx, q.Bucket, q.Key, options)
	if err != nil {
		return nil, err
	}
	return line.Digest(body)
}

func head(q *line.Request) (line.Answer, error) {
	info, err := core.Client.StatObject(ctx, q.Bucket, q.Key, minio.StatObjectOptions{})
	return line.Answer{"size": info.Size}, err
}

func list(q *line.Request) (line.Answer, error) {
	keys := []string{}
	for o := range core.Client.ListObjects(ctx, q.Bucket, minio.ListObjectsOptions{Prefix: q.Prefix, Recursive: true,
		MaxKeys: q.Page}) {
		if o.Err != nil {
			return nil, o.Err
		}
		keys = append(keys, o.Key)
	}
	return line.Answer{"keys": keys}, nil
}

func create(q *line.Request) (line.Answer, error) {
	id, err := core.NewMultipartUpload(ctx, q.Bucket, q.Key, minio.PutObjectOptions{})
	return line.Answer{"upload": id}, err
}

func part(q *line.Request) (line.Answer, error) {
	f, err := os.Open(q.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := core.PutObjectPart(ctx, q.Bucket, q.Key, q.Upload, q.Part, f, info.Size(), minio.PutObjectPartOptions{})
	return line.Answer{"etag": p.ETag}, err
}

func complete(q *line.Request) (line.Answer, error) {
	parts := []minio.CompletePart{}
	for i, e := range q.Etags {
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: e})
	}
	_, err := core.CompleteMultipartUpload(ctx, q.Bucket, q.Key, q.Upload, parts, minio.PutObjectOptions{})
	return nil, err
}

func copyObject(q *line.Request) (line.Answer, error) {
	_, err := core.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: q.Bucket, Object: q.Key},
		minio.CopySrcOptions{Bucket: q.Bucket, Object: q.Source})
	return nil, err
}

func deleteMany(q *line.Request) (line.Answer, error) {
	objects := make(chan minio.ObjectInfo, len(q.Keys))
	for _, k := range q.Keys {
		objects <- minio.ObjectInfo{Key: k}
	}
	close(objects)
	failed := []string{}
	for e := range core.Client.RemoveObjects(ctx, q.Bucket, objects, minio.RemoveObjectsOptions{}) {
		failed = append(failed, e.ObjectName+": "+e.Err.Error())
	}
	return line.Answer{"deleted": len(q.Keys) - len(failed), "errors": failed}, nil
}

func presign(q *line.Request) (line.Answer, error) {
	var u *url.URL
	var err error
	if q.Method == "GET" {
		u, err = core.Client.PresignedGetObject(ctx, q.Bucket, q.Key, 5*time.Minute, nil)
	} else {
		u, err = core.Client.PresignedPutObject(ctx, q.Bucket, q.Key, 5*time.Minute)
	}
	if err != nil {
		return nil, err
	}
	return line.Answer{"url": u.String()}, nil
}

func failure(err error) (int, string, string) {
	r := minio.ToErrorResponse(err)
	return r.StatusCode, r.Code, r.RequestID
}

func main() {
	endpoint, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	core, err = minio.NewCore(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
		Region: os.Getenv("AWS_REGION"), BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		panic(err)
	}
	line.Serve(map[string]func(*line.Request) (line.Answer, error){
		"put": put, "upload": upload, "get": get, "head": head, "list": list, "create": create, "part": part,
		"complete": complete, "copy": copyObject, "delete_many": deleteMany, "presign": presign,
	}, failure)
}
