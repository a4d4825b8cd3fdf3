/* Files: what is wrong with them is said by key and name, and a change is taken over whole or not
 * at all. */
#include "common/tls/tls_shelf.h"

#include "tests/unit/common/tls/party.h"

static struct party authority, second, mine, mine_later;

static const char *const all_files[] = {"ca.pem",    "mine.pem",    "mine.key",
                                        "empty.pem", "damaged.pem", "secret.key"};

static int make_parties(void **state)
{
    (void)state;
    files_begin();
    authority = party_make((struct wish){.name = "Test authority", .authority = true});
    second = party_make((struct wish){.name = "Second authority", .authority = true});
    mine = party_make((struct wish){.name = "client", .by = &authority});
    mine_later = party_make((struct wish){.name = "client", .by = &authority});
    return 0;
}

static int drop_parties(void **state)
{
    (void)state;
    struct party *const all[] = {&authority, &second, &mine, &mine_later};
    for (size_t i = 0; i < FL_COUNTOF(all); i++) {
        party_free(all[i]);
    }
    files_end(all_files, FL_COUNTOF(all_files));
    return 0;
}

static int write_files(void **state)
{
    (void)state;
    write_cert("ca.pem", &authority);
    write_cert("mine.pem", &mine);
    write_key("mine.key", &mine, NULL);
    write_key("secret.key", &mine, "open sesame");
    write_text("empty.pem", "# nothing here\n");
    write_text("damaged.pem", "-----BEGIN CERTIFICATE-----\nbm8gY2VydGlmaWNhdGU=\n"
                              "-----END CERTIFICATE-----\n");
    return 0;
}

static struct fl_tls_conf conf_of(const char *ca, const char *cert, const char *key)
{
    return (struct fl_tls_conf){.on = true,
                                .verify = ca != NULL,
                                .ca_file = ca != NULL ? path_of(ca) : "",
                                .cert_file = cert != NULL ? path_of(cert) : "",
                                .key_file = key != NULL ? path_of(key) : "",
                                .server_name = "store.example"};
}

static void refused(struct fl_tls_conf conf, const char *key, const char *words)
{
    struct fl_tls_shelf *s = fl_tls_shelf_new(1);
    struct fl_tls_problem problem = {.key = NULL};
    struct fl_tls_terms *t = NULL;
    assert_int_equal(fl_tls_shelf_get(s, &conf, &problem, &t), -EINVAL);
    assert_null(t);
    assert_string_equal(problem.key, key);
    if (strstr(problem.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", problem.text, words);
    }
    fl_tls_shelf_free(s);
}

static void problems_name_key_and_file(void **state)
{
    (void)state;
    refused(conf_of("none.pem", NULL, NULL), "ca_file", "none.pem (No such file or directory)");
    refused(conf_of("empty.pem", NULL, NULL), "ca_file", "empty.pem holds no certificate");
    refused(conf_of("damaged.pem", NULL, NULL), "ca_file", "damaged.pem holds a certificate that");
    refused(conf_of(".", NULL, NULL), "ca_file", "Is a directory");
    refused(conf_of("ca.pem", "none.pem", "mine.key"), "cert_file", "cannot read");
    refused(conf_of("ca.pem", "mine.pem", "none.key"), "key_file", "none.key (No such file");
    refused(conf_of("ca.pem", "empty.pem", "mine.key"), "cert_file", "holds no certificate");
    refused(conf_of("ca.pem", "mine.pem", "empty.pem"), "key_file", "holds no private key");
    refused(conf_of("ca.pem", "mine.pem", "secret.key"), "key_file", "passphrase");
    write_cert("mine.pem", &mine_later);
    refused(conf_of("ca.pem", "mine.pem", "mine.key"), "key_file",
            "mine.key is not the key of the certificate in ");
}

static void the_system_has_a_bundle(void **state)
{
    (void)state;
    struct fl_tls_problem problem;
    struct fl_tls_authorities *a = NULL;
    if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) != 0) {
        skip();
    }
    assert_int_equal(fl_tls_authorities_new("", &problem, &a), 0);
    assert_false(fl_tls_authorities_changed(a));
    fl_tls_authorities_free(a);
}

static struct fl_tls_terms *get(struct fl_tls_shelf *s, struct fl_tls_conf conf)
{
    struct fl_tls_problem problem;
    struct fl_tls_terms *t = NULL;
    assert_int_equal(fl_tls_shelf_get(s, &conf, &problem, &t), 0);
    assert_non_null(t);
    return t;
}

static void one_definition_one_set_of_terms(void **state)
{
    (void)state;
    struct fl_tls_shelf *s = fl_tls_shelf_new(2);
    fl_tls_shelf_begin(s);
    struct fl_tls_terms *a = get(s, conf_of("ca.pem", NULL, NULL));
    struct fl_tls_conf named = conf_of("ca.pem", NULL, NULL);
    assert_ptr_equal(get(s, conf_of("ca.pem", NULL, NULL)), a);
    named.server_name = "other.example";
    assert_ptr_not_equal(get(s, named), a);
    assert_ptr_not_equal(get(s, conf_of("ca.pem", "mine.pem", "mine.key")), a);
    assert_ptr_not_equal(get(s, conf_of(NULL, NULL, NULL)), a);
    fl_tls_shelf_end(s);
    uint64_t proof = fl_tls_terms_proof(a, "x");
    fl_tls_shelf_begin(s);
    assert_ptr_equal(get(s, conf_of("ca.pem", NULL, NULL)), a);
    fl_tls_shelf_end(s);
    fl_tls_shelf_begin(s);
    fl_tls_shelf_end(s); /* nobody wants it any more */
    fl_tls_shelf_begin(s);
    assert_true(fl_tls_terms_proof(get(s, conf_of("ca.pem", NULL, NULL)), "x") != proof);
    fl_tls_shelf_end(s);
    fl_tls_shelf_free(s);
}

static char said[512];
static unsigned said_count;

static void say(void *arg, const char *file, const struct fl_tls_problem *problem)
{
    (void)arg;
    snprintf(said, sizeof said, "%s %s", strrchr(file, '/') + 1,
             problem != NULL ? problem->text : "taken over");
    said_count++;
}

static bool look(struct fl_tls_shelf *s)
{
    said[0] = '\0';
    said_count = 0;
    return fl_tls_shelf_look(s, say, NULL);
}

static void touch(const char *name) /* another stamp, the same content */
{
    struct timespec times[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

static void changed_authorities_are_taken_over(void **state)
{
    (void)state;
    struct fl_tls_shelf *s = fl_tls_shelf_new(1);
    struct fl_tls_conf conf = conf_of("ca.pem", NULL, NULL), also = conf;
    also.server_name = "other.example";
    uint64_t a = fl_tls_terms_proof(get(s, conf), "x"), b = fl_tls_terms_proof(get(s, also), "x");
    assert_false(look(s));
    touch("ca.pem");
    assert_false(look(s));
    assert_int_equal(said_count, 0);
    assert_true(fl_tls_terms_proof(get(s, conf), "x") == a);
    write_cert("ca.pem", &second);
    assert_true(look(s));
    assert_int_equal(said_count, 2); /* both definitions trust it */
    assert_string_equal(said, "ca.pem taken over");
    assert_true(fl_tls_terms_proof(get(s, conf), "x") != a);
    assert_true(fl_tls_terms_proof(get(s, also), "x") != b);
    assert_false(look(s));
    fl_tls_shelf_free(s);
}

static void half_a_change_waits(void **state)
{
    (void)state;
    struct fl_tls_shelf *s = fl_tls_shelf_new(1);
    struct fl_tls_conf conf = conf_of("ca.pem", "mine.pem", "mine.key");
    uint64_t before = fl_tls_terms_proof(get(s, conf), "x");
    write_text("ca.pem", "");
    assert_false(look(s));
    assert_non_null(strstr(said, "holds no certificate"));
    assert_false(look(s));
    assert_int_equal(said_count, 0); /* said once */
    write_cert("ca.pem", &second);
    write_cert("mine.pem", &mine_later); /* its key has not come yet */
    assert_false(look(s));
    assert_non_null(strstr(said, "is not the key of the certificate"));
    assert_true(fl_tls_terms_proof(get(s, conf), "x") == before);
    write_key("mine.key", &mine_later, NULL);
    assert_true(look(s)); /* and the authorities, which had come before */
    assert_true(fl_tls_terms_proof(get(s, conf), "x") != before);
    unlink(path_of("mine.pem"));
    assert_false(look(s));
    assert_non_null(strstr(said, "cannot read"));
    write_cert("mine.pem", &mine_later); /* as before: the terms stay */
    before = fl_tls_terms_proof(get(s, conf), "x");
    assert_false(look(s));
    assert_true(fl_tls_terms_proof(get(s, conf), "x") == before);
    unlink(path_of("mine.pem"));
    assert_false(look(s));
    assert_int_equal(said_count, 1); /* a new trouble, though in the same words */
    fl_tls_shelf_free(s);
}

/* Kubernetes swaps a symbolic link to a new folder. */
static void a_swapped_link_is_a_change(void **state)
{
    (void)state;
    struct fl_tls_shelf *s = fl_tls_shelf_new(1);
    unlink(path_of("mine.pem"));
    assert_int_equal(symlink(path_of("ca.pem"), path_of("mine.pem")), 0);
    write_cert("damaged.pem", &second);
    struct fl_tls_conf conf = conf_of("mine.pem", NULL, NULL);
    uint64_t before = fl_tls_terms_proof(get(s, conf), "x");
    assert_false(look(s));
    assert_int_equal(symlink(path_of("damaged.pem"), path_of("empty.pem.new")), 0);
    assert_int_equal(rename(path_of("empty.pem.new"), path_of("mine.pem")), 0);
    assert_true(look(s));
    assert_true(fl_tls_terms_proof(get(s, conf), "x") != before);
    fl_tls_shelf_free(s);
    unlink(path_of("mine.pem"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(problems_name_key_and_file, write_files),
        cmocka_unit_test(the_system_has_a_bundle),
        cmocka_unit_test_setup(one_definition_one_set_of_terms, write_files),
        cmocka_unit_test_setup(changed_authorities_are_taken_over, write_files),
        cmocka_unit_test_setup(half_a_change_waits, write_files),
        cmocka_unit_test_setup(a_swapped_link_is_a_change, write_files),
    };
    return cmocka_run_group_tests(tests, make_parties, drop_parties);
}
