/* Histories of slices, services, relists and time against the plain list: bytes are operations. */
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/controller/decide/slices_play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static uint8_t next_byte(void *arg)
{
    struct input *in = arg;
    return in->at < in->end ? *in->at++ : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play p;
    struct input in = {data, data + (size < 400 ? size : 400)};
    play_begin(&p, next_byte, &in);
    p.every = 4; /* what is wrong mostly stays wrong, and more histories see more */
    while (in.at < in.end) {
        play_step(&p);
    }
    play_end(&p);
    return 0;
}
