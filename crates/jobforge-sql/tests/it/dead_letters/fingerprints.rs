//! Fingerprints: errors of one cause are one, errors of different causes are not, and what was one stays one.

use crate::schema::migrated;

/// What an error becomes; errors that become the same text are of one group.
const NORMAL: &[(&str, &[&str])] = &[
    (
        "connection to <n> refused",
        &["connection to 10.0.0.1:5432 refused", "Connection to 192.168.17.4:80 refused\r\nat x.rs:1"],
    ),
    (
        "user <n> not found",
        &["user 1 not found", "user 123456789 not found", "User -5 not found", "user 3.14 not found"],
    ),
    (
        "job <uuid> not found",
        &[
            "job 01900000-0000-7000-8000-000000000001 not found",
            "job F47AC10B-58CC-4372-A567-0E02B2C3D479 not found",
            "job f47ac10b58cc4372a5670e02b2c3d479 not found",
        ],
    ),
    (
        "no column <text> in <text>",
        &["no column \"a b\" in 'x'", "no column `id` in \"users\"", "no column '' in \"\""],
    ),
    ("the worker's lease ran out", &["the worker's lease ran out"]),
    (
        "can't open <path>: don't know",
        &[
            "can't open /etc/passwd: don't know",
            "can't open ./a/b.txt: don't know",
            "can't open ~/x: don't know",
            "can't open C:\\Temp\\x.log: don't know",
        ],
    ),
    (
        "expired at <time>",
        &[
            "expired at 2026-11-15T12:45:06Z",
            "expired at 2026-11-15 12:45:06.123456+00:00",
            "expired at 2026-01-02",
            "expired at 12:45:06.5",
            "expired at 2026-11-15 12:45:06 UTC",
        ],
    ),
    ("get <url> gave <n>", &["GET https://example.com/a?b=c gave 500", "get http://10.0.0.1:80/x gave 502"]),
    (
        "address <n> is bad",
        &[
            "address 0xDEADBEEF is bad",
            "address 0x1 is bad",
            "address deadbeef01 is bad",
            "address 12345678 is bad",
        ],
    ),
    ("read/write error and/or n/a", &["read/write error and/or n/a"]),
    ("defaced feedface", &["defaced feedface"]),
    (
        "no file <path> here",
        &[
            "no file /srv/d41d8cd98f00b204e9800998ecf8427e/x here",
            "no file /srv/1 here",
            "no file ../01900000-0000-7000-8000-000000000001 here",
            "no file /var/2026-11-15/a.log here",
        ],
    ),
    ("took <n>ms in worker<n>", &["took 30ms in worker12", "took 1.5ms in worker3"]),
    ("http status 404 not found", &["HTTP status 404 not found", "http  status 404 Not Found"]),
    ("http status 500 not found", &["HTTP status 500 not found"]),
    (
        "<url> answered with status code: 503.",
        &[
            "https://a.example/500 answered with status code: 503.",
            "http://b.example answered with Status Code: 503.",
        ],
    ),
    ("http/<n> 429 after <n> ms", &["HTTP/1.1 429 after 250 ms", "HTTP/2 429 after 7 ms"]),
    ("status_code=502, then statuscode: 504", &["status_code=502, then StatusCode: 504"]),
    ("exit code 137 of process <n>", &["exit code 137 of process 200", "exit code 137 of process 31"]),
    // What only looks like one: too long, too short, no such class, a unit behind it, a fraction, no word before it.
    ("error code <n>", &["error code 23505", "error code 42", "error code 601", "error code 404.5"]),
    ("status <n>ms", &["status 404ms", "status 20ms"]),
    ("barcode <n> gave <n>", &["barcode 404 gave 500", "barcode 1 gave 200"]),
    ("first line", &["first line\nsecond line 1", "  \n first   line\nother"]),
    ("", &["", "\n\n"]),
];

#[tokio::test]
async fn errors_of_one_cause_become_one_text() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    for (wanted, errors) in NORMAL {
        for error in *errors {
            let row = admin.query_one("select jobforge.normal_error($1)", &[error]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), *wanted, "{error:?}");
        }
    }
}

/// Fingerprints stand in filters that people keep: a change of them is noticed here.
#[tokio::test]
async fn fingerprints_do_not_change() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let of = async |kind: &str, class: &str, error: &str| -> String {
        let sql = "select jobforge.error_fingerprint($1, $2, $3)";
        admin.query_one(sql, &[&kind, &class, &error]).await.unwrap().get(0)
    };
    assert_eq!(of("test.noop", "failed/permanent", "told to fail").await, "04ea6b5bbeff4a57");
    assert_eq!(of("report.pdf", "dead/retryable", "user 17 not found").await, "66e30c9f2c5530c1");
    assert_eq!(of("report.pdf", "dead/lost", "the worker's lease ran out").await, "52d010a4cf08da6d");
    let one = of("a", "failed/permanent", "user 1").await;
    assert_eq!(of("a", "failed/permanent", "User 22").await, one);
    for (kind, class, error) in [
        ("b", "failed/permanent", "user 1"),
        ("a", "dead/retryable", "user 1"),
        ("a", "failed/permanent", "users 1"),
    ] {
        assert_ne!(of(kind, class, error).await, one, "{kind} {class} {error}");
    }
}

#[tokio::test]
async fn a_long_error_counts_by_its_beginning() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let sql = "select length(jobforge.normal_error(repeat('ab ', 5000))),
        jobforge.normal_error(repeat('ab ', 5000)) = jobforge.normal_error(repeat('ab ', 400) || 'c'),
        jobforge.normal_error(null) is null";
    let row = admin.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1), row.get::<_, bool>(2)), (200, true, true));
}
