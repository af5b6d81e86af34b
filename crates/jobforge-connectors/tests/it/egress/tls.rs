//! Encrypted requests, against a server of the `openssl` command with a certificate of its own authority.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobforge_connectors::egress::{Egress, EgressError, EgressSettings};

use super::{send, settings};
use crate::server::{Reply, Server};

/// Answers one request with what it was given; stopped when dropped.
struct Encrypted {
    child: Child,
    port: u16,
}

impl Encrypted {
    fn start(dir: &Path, answer: &str) -> Encrypted {
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert", "leaf.pem", "-key", "leaf.key"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdout, mut stdin) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
        // `ACCEPT 127.0.0.1:40001`
        let accepts = lines.find(|line| line.starts_with("ACCEPT ")).unwrap();
        let port = accepts.rsplit(':').next().unwrap().parse().unwrap();
        let answer = answer.to_owned();
        // The server shows what it receives and sends what it is given: the answer comes after the request.
        std::thread::spawn(move || {
            if lines.any(|line| line.starts_with("GET ")) {
                let _ = stdin.write_all(answer.as_bytes());
            }
            lines.for_each(drop);
        });
        Encrypted { child, port }
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority and a certificate for 127.0.0.1, and settings that trust it.
fn trusting(dir: &Path) -> EgressSettings {
    let openssl = |arguments: &str| {
        let made = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&format!("{new} -subj /CN=authority -keyout ca.key -out ca.pem"));
    openssl(&format!(
        "{new} -subj /CN=leaf -CA ca.pem -CAkey ca.key -keyout leaf.key -out leaf.pem \
         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    ));
    let authorities = Some(std::fs::read(dir.join("ca.pem")).unwrap());
    EgressSettings { authorities, ..settings(&["127.0.0.0/8"]) }
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let egress = Egress::new(&trusting(dir.path())).unwrap();
    let plain = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let answer = format!("HTTP/1.1 302 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", plain.url("/"));
    let encrypted = Encrypted::start(dir.path(), &answer);
    let error = send(&egress, &format!("https://127.0.0.1:{}/", encrypted.port)).await.unwrap_err();
    assert!(matches!(error, EgressError::Downgrade { .. }) && error.is_permanent(), "{error}");
    assert_eq!(plain.accepted().await, 0);
}

#[tokio::test]
async fn a_certificate_is_trusted_only_by_who_knows_its_authority() {
    let dir = tempfile::tempdir().unwrap();
    let trusting = trusting(dir.path());
    let answer = "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok";
    let known = Encrypted::start(dir.path(), answer);
    let told =
        send(&Egress::new(&trusting).unwrap(), &format!("https://127.0.0.1:{}/", known.port)).await.unwrap();
    assert_eq!(&told.body.bytes[..], b"ok");
    let unknown = Encrypted::start(dir.path(), answer);
    let stranger = Egress::new(&settings(&["127.0.0.0/8"])).unwrap();
    let error = send(&stranger, &format!("https://127.0.0.1:{}/", unknown.port)).await.unwrap_err();
    assert!(matches!(error, EgressError::Connection { .. }), "{error}");
}
