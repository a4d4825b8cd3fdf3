// Package line speaks the protocol of the line clients: one JSON request a line on stdin, one JSON answer a line on
// stdout, many in flight.
package line

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"sync"
)

// Request is what the tests ask for; each operation uses some of it.
type Request struct {
	ID     int      `json:"id"`
	Op     string   `json:"op"`
	Bucket string   `json:"bucket"`
	Key    string   `json:"key"`
	File   string   `json:"file"`
	Range  string   `json:"range"`
	Once   bool     `json:"once"`
	Prefix string   `json:"prefix"`
	Page   int      `json:"page"`
	Upload string   `json:"upload"`
	Part   int      `json:"part"`
	Etags  []string `json:"etags"`
	Source string   `json:"source"`
	Keys   []string `json:"keys"`
	Method string   `json:"method"`
}

// Answer holds the fields of a good answer.
type Answer map[string]any

// Failure tells what an SDK's error says: status, code, request id.
type Failure func(error) (int, string, string)

// Serve answers until stdin ends.
func Serve(ops map[string]func(*Request) (Answer, error), failure Failure) {
	var out sync.Mutex
	var running sync.WaitGroup
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		q := new(Request)
		if err := json.Unmarshal(in.Bytes(), q); err != nil {
			panic(err)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			answer, err := ops[q.Op](q)
			if err != nil {
				status, code, id := failure(err)
				answer = Answer{"status": status, "code": code, "message": err.Error(), "request_id": id}
			} else if answer == nil {
				answer = Answer{}
			}
			answer["id"], answer["ok"] = q.ID, err == nil
			text, _ := json.Marshal(answer)
			out.Lock()
			defer out.Unlock()
			os.Stdout.Write(append(text, '\n'))
		}()
	}
	running.Wait()
}

// Digest reads to the end and closes.
func Digest(body io.ReadCloser) (Answer, error) {
	defer body.Close()
	sha := sha256.New()
	size, err := io.Copy(sha, body)
	return Answer{"sha256": hex.EncodeToString(sha.Sum(nil)), "size": size}, err
}
