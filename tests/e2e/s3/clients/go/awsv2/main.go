// AWS SDK for Go v2 as a line client. usage: awsv2 ENDPOINT
package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"

	"fairlead-e2e/line"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var (
	ctx    = context.Background()
	client *s3.Client
)

func put(q *line.Request) (line.Answer, error) {
	f, err := os.Open(q.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &s3.PutObjectInput{Bucket: &q.Bucket, Key: &q.Key, Body: f}
	if q.Once {
		in.IfNoneMatch = aws.String("*")
	}
	_, err = client.PutObject(ctx, in)
	return nil, err
}

func get(q *line.Request) (line.Answer, error) {
	in := &s3.GetObjectInput{Bucket: &q.Bucket, Key: &q.Key}
	if q.Range != "" {
		in.Range = &q.Range
	}
	r, err := client.GetObject(ctx, in)
	if err != nil {
		return nil, err
	}
	return line.Digest(r.Body)
}

func head(q *line.Request) (line.Answer, error) {
	r, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &q.Bucket, Key: &q.Key})
	if err != nil {
		return nil, err
	}
	return line.Answer{"size": aws.ToInt64(r.ContentLength)}, nil
}

func list(q *line.Request) (line.Answer, error) {
	keys := []string{}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &q.Bucket, Prefix: &q.Prefix},
		func(o *s3.ListObjectsV2PaginatorOptions) { o.Limit = int32(q.Page) })
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
	}
	return line.Answer{"keys": keys}, nil
}

func create(q *line.Request) (line.Answer, error) {
	r, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &q.Bucket, Key: &q.Key})
	if err != nil {
		return nil, err
	}
	return line.Answer{"upload": *r.UploadId}, nil
}

func part(q *line.Request) (line.Answer, error) {
	f, err := os.Open(q.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &q.Bucket, Key: &q.Key, UploadId: &q.Upload,
		PartNumber: aws.Int32(int32(q.Part)), Body: f})
	if err != nil {
		return nil, err
	}
	return line.Answer{"etag": *r.ETag}, nil
}

func complete(q *line.Request) (line.Answer, error) {
	parts := []types.CompletedPart{}
	for i, e := range q.Etags {
		parts = append(parts, types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: aws.String(e)})
	}
	_, err := client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &q.Bucket, Key: &q.Key,
		UploadId: &q.Upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	return nil, err
}

func copyObject(q *line.Request) (line.Answer, error) {
	source := q.Bucket + "/" + strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(q.Source))
	_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &q.Bucket, Key: &q.Key, CopySource: &source})
	return nil, err
}

func deleteMany(q *line.Request) (line.Answer, error) {
	objects := []types.ObjectIdentifier{}
	for _, k := range q.Keys {
		objects = append(objects, types.ObjectIdentifier{Key: aws.String(k)})
	}
	r, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &q.Bucket, Delete: &types.Delete{Objects: objects}})
	if err != nil {
		return nil, err
	}
	return line.Answer{"deleted": len(r.Deleted), "errors": r.Errors}, nil
}

func presign(q *line.Request) (line.Answer, error) {
	presigner := s3.NewPresignClient(client)
	if q.Method == "GET" {
		r, err := presigner.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &q.Bucket, Key: &q.Key})
		if err != nil {
			return nil, err
		}
		return line.Answer{"url": r.URL}, nil
	}
	r, err := presigner.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &q.Bucket, Key: &q.Key})
	if err != nil {
		return nil, err
	}
	return line.Answer{"url": r.URL}, nil
}

func failure(err error) (int, string, string) {
	status, code, id := 0, "", ""
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
		id = response.Response.Header.Get("x-amz-request-id")
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code, id
}

func main() {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		panic(err)
	}
	client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint = aws.String(os.Args[1])
		o.UsePathStyle = true
	})
	line.Serve(map[string]func(*line.Request) (line.Answer, error){
		"put": put, "get": get, "head": head, "list": list, "create": create, "part": part, "complete": complete,
		"copy": copyObject, "delete_many": deleteMany, "presign": presign,
	}, failure)
}
