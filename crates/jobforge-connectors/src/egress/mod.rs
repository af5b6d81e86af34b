//! The one HTTP client of JobForge: everything that leaves for an address somebody else chose goes through
//! here. It reaches the public internet and nothing else unless its policy says so; `docs/guides/egress.md`
//! tells what is refused and why.

mod address;
mod body;
mod error;
mod fetch;
mod policy;
mod redirect;
mod resolver;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderMap;
use reqwest::{Certificate, Method, StatusCode};
use tokio::time::timeout_at;
use url::Url;
use uuid::Uuid;

pub use body::{Body, BodyEnd};
pub use error::{EgressError, UrlFault};
pub use fetch::FetchError;
pub use ipnet::IpNet;
pub use policy::{EgressPolicy, parse_nets};
pub use resolver::{Lookup, SystemLookup};

use redirect::Hop;
use resolver::GuardedResolver;

/// The most redirects of one request.
pub const MAX_REDIRECTS: usize = 5;
/// The most headers of an answer.
const MAX_HEADERS: usize = 100;
/// The most bytes of an answer's headers.
const MAX_HEADER_BYTES: usize = 64 * 1024;
const USER_AGENT: &str = concat!("JobForge/", env!("CARGO_PKG_VERSION"));

/// What an egress client is made of.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Where requests of every tenant may go.
    pub policy: EgressPolicy,
    /// Ranges that requests of one tenant may reach as well.
    pub tenants: BTreeMap<Uuid, Vec<IpNet>>,
    /// How long a connection may take, the look-up of its name included.
    pub connect_timeout: Duration,
    /// How long an answer may pause.
    pub read_timeout: Duration,
    /// How long one request may take with everything, whatever it asks for itself.
    pub max_timeout: Duration,
    /// How much of an answer's body is read at most, decoded, whatever the request asks for.
    pub max_body_bytes: usize,
    /// Certificates (PEM) of authorities that are trusted beside the system's.
    pub authorities: Option<Vec<u8>>,
}

impl Default for EgressSettings {
    fn default() -> EgressSettings {
        EgressSettings {
            policy: EgressPolicy::default(),
            tenants: BTreeMap::new(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(300),
            max_body_bytes: 256 * 1024,
            authorities: None,
        }
    }
}

/// The guarded client. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Egress {
    clients: Arc<Clients>,
}

/// One client per policy: a client resolves names by its own policy alone.
#[derive(Debug)]
struct Clients {
    max_timeout: Duration,
    max_body_bytes: usize,
    everybody: Client,
    tenants: BTreeMap<Uuid, Client>,
}

#[derive(Debug)]
struct Client {
    policy: Arc<EgressPolicy>,
    http: reqwest::Client,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Where it goes first.
    pub url: Url,
    /// Its headers. Values marked as sensitive never go along to another origin.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Option<Bytes>,
    /// How long everything may take, redirects and the answer's body included.
    pub timeout: Duration,
    /// How much of the answer's body is wanted.
    pub max_body: usize,
    /// What an answer that leads on means.
    pub redirects: Redirects,
}

/// What an answer that leads on means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// It is the answer.
    Answer,
    /// It is followed.
    Follow,
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as far as it was wanted.
    pub body: Body,
    /// How long everything took.
    pub elapsed: Duration,
}

impl Egress {
    /// A client that asks the system for addresses.
    pub fn new(settings: &EgressSettings) -> Result<Egress, EgressError> {
        Egress::with_lookup(settings, Arc::new(SystemLookup))
    }

    /// A client that asks this for addresses.
    pub fn with_lookup(settings: &EgressSettings, lookup: Arc<dyn Lookup>) -> Result<Egress, EgressError> {
        let client = |nets: &[IpNet]| Client::new(settings, nets, lookup.clone());
        let tenants = settings.tenants.iter().map(|(tenant, nets)| Ok((*tenant, client(nets)?)));
        let tenants = tenants.collect::<Result<_, EgressError>>()?;
        let everybody = Client::new(settings, &[], lookup)?;
        let EgressSettings { max_timeout, max_body_bytes, .. } = *settings;
        Ok(Egress { clients: Arc::new(Clients { max_timeout, max_body_bytes, everybody, tenants }) })
    }

    /// Sends a request for a tenant and reads the answer.
    pub async fn send(&self, tenant: Uuid, request: Request) -> Result<Response, EgressError> {
        let client = self.clients.tenants.get(&tenant).unwrap_or(&self.clients.everybody);
        self.clients.send(client, request).await
    }
}

impl Clients {
    async fn send(&self, client: &Client, request: Request) -> Result<Response, EgressError> {
        let clock = Clock { started: Instant::now(), timeout: request.timeout.min(self.max_timeout) };
        let (max_body, redirects) = (request.max_body.min(self.max_body_bytes), request.redirects);
        let Request { method, url, headers, body, .. } = request;
        let mut hop = Hop { method, url, headers, body };
        for _ in 0..=MAX_REDIRECTS {
            let answer = client.hop(&hop, clock).await?;
            let next = match redirects {
                Redirects::Follow => hop.next(answer.status(), answer.headers())?,
                Redirects::Answer => None,
            };
            match next {
                Some(next) => hop = next,
                None => return Ok(clock.read(&hop, answer, max_body).await),
            }
        }
        Err(EgressError::TooManyRedirects(MAX_REDIRECTS))
    }
}

impl Client {
    fn new(
        settings: &EgressSettings,
        nets: &[IpNet],
        lookup: Arc<dyn Lookup>,
    ) -> Result<Client, EgressError> {
        let mut policy = settings.policy.clone();
        policy.allow.extend(nets);
        let policy = Arc::new(policy);
        let setup = |error: &dyn std::fmt::Display| EgressError::Setup(error.to_string());
        let authorities = settings.authorities.as_deref().unwrap_or_default();
        let authorities = Certificate::from_pem_bundle(authorities).map_err(|error| setup(&error))?;
        let http = reqwest::Client::builder()
            .dns_resolver(GuardedResolver { lookup, policy: policy.clone() })
            // A proxy would look names up by itself.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            // A connection is never shared: neither between tenants nor beyond the look-up it was checked by.
            .pool_max_idle_per_host(0)
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
            .user_agent(USER_AGENT)
            .tls_certs_merge(authorities)
            .build()
            .map_err(|error| setup(&error))?;
        Ok(Client { policy, http })
    }

    /// One request, once its URL is checked; the answer with its headers checked.
    async fn hop(&self, hop: &Hop, clock: Clock) -> Result<reqwest::Response, EgressError> {
        self.policy.check(&hop.url)?;
        let mut request = self.http.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        let answer = timeout_at(clock.deadline(), request.send()).await.map_err(|_| clock.over(hop))?;
        let answer = answer.map_err(|error| EgressError::of(&error, hop.host(), clock.started.elapsed()))?;
        let headers = answer.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            return Err(EgressError::Headers { host: hop.host().to_owned() });
        }
        Ok(answer)
    }
}

/// The time of one request with all its hops.
#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    timeout: Duration,
}

impl Clock {
    fn deadline(self) -> tokio::time::Instant {
        (self.started + self.timeout).into()
    }

    fn over(self, hop: &Hop) -> EgressError {
        EgressError::Timeout { host: hop.host().to_owned(), after: self.timeout }
    }

    /// The answer with its body. What its headers said stands even if the body breaks off.
    async fn read(self, hop: &Hop, mut answer: reqwest::Response, max_body: usize) -> Response {
        let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        let mut bytes = BytesMut::new();
        let end = match timeout_at(self.deadline(), body::read(answer, max_body, &mut bytes)).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => BodyEnd::Failed(EgressError::of(&error, hop.host(), self.started.elapsed())),
            Err(_) => BodyEnd::Failed(self.over(hop)),
        };
        let body = Body { bytes: bytes.freeze(), end };
        Response { status, headers, body, elapsed: self.started.elapsed() }
    }
}
