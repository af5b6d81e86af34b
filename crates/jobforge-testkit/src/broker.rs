//! A RabbitMQ for one test, on ports and files of its own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::or_fail::OrFail;
use crate::run::Run;

/// Generous, because it only passes when a test fails: a broker takes four seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Debian's `/usr/sbin/rabbitmq-server` insists on its own user; the one behind it runs as anybody.
const PLACES: [&str; 2] = ["/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server"];

/// Runs the port mapper and the server until standard input ends, which it does with the test, however
/// that ends. By force, because a broker that is stopped in an orderly way takes seconds for it.
const GUARD: &str = r#"epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & "$1" & read -r _; kill -KILL 0"#;

/// A broker that can be absent, and come and go; it ends with this.
#[derive(Debug)]
pub struct Broker {
    dir: PathBuf,
    ports: Ports,
    guard: Option<Child>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    distribution: u16,
    mapper: u16,
}

impl Broker {
    /// A place where a broker may be started; nothing listens there yet.
    pub fn absent() -> Broker {
        let dir = Run::join().private_data_dir();
        fs::create_dir_all(&dir).or_fail("make the directory of a test broker");
        Broker { dir, ports: Ports::free(), guard: None }
    }

    /// A broker that takes connections.
    pub async fn start() -> Broker {
        let mut broker = Broker::absent();
        broker.resume().await;
        broker
    }

    /// Starts it, for the first time or again, with what is durable in it.
    pub async fn resume(&mut self) {
        self.guard = Some(self.launch());
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.ports.amqp)).await.is_err() {
            let log = || fs::read_to_string(self.dir.join("output")).unwrap_or_default();
            assert!(Instant::now() < deadline, "no broker within {PATIENCE:?}:\n{}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }

    /// Where it is, with the login every RabbitMQ begins with.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.amqp)
    }

    /// The port of that URL, also for a test that stands there itself while the broker is absent.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    fn launch(&self) -> Child {
        let dir = |name: &str| self.dir.join(name);
        let output = fs::File::create(dir("output")).or_fail("make the log of a test broker");
        let errors = output.try_clone().or_fail("make the log of a test broker");
        let Ports { amqp, distribution, mapper } = self.ports;
        Command::new("/bin/sh")
            .args(["-c", GUARD, "jobforge-test-broker"])
            .arg(server())
            .current_dir(&self.dir)
            // The cookie of its Erlang is made there.
            .env("HOME", &self.dir)
            .env("ERL_EPMD_PORT", mapper.to_string())
            .env("RABBITMQ_NODENAME", format!("jobforge-{amqp}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", amqp.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", dir("mnesia"))
            .env("RABBITMQ_LOG_BASE", dir("log"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_PID_FILE", dir("pid"))
            // What this machine's own broker is configured with is no business of the tests.
            .env("RABBITMQ_CONF_ENV_FILE", dir("none"))
            .env("RABBITMQ_CONFIG_FILE", dir("none"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir("none"))
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .or_fail("start a test broker")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        // Best effort: the watchdog deletes what is left.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Ports {
    /// Held all at once, so that they differ. Below the range from which systems give ports away: it takes seconds until
    /// a broker holds its own, and nobody else shall be given one of them meanwhile.
    fn free() -> Ports {
        let from = (std::process::id() % 8_000) as u16;
        let mut ports = (0..8_000).map(|at| 12_000 + (from + at) % 8_000);
        let held = [(); 3].map(|()| {
            let port = ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
            port.expect("there is a free port")
        });
        let [amqp, distribution, mapper] =
            held.each_ref().map(|held| held.local_addr().or_fail("find a free port").port());
        Ports { amqp, distribution, mapper }
    }
}

fn server() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> =
        std::env::split_paths(&on_path).map(|dir| dir.join("rabbitmq-server")).collect();
    let mut places = PLACES.iter().map(PathBuf::from).chain(on_path);
    places.find(|place| Path::exists(place)).expect("RabbitMQ is installed (scripts/setup test)")
}
