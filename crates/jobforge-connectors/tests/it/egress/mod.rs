//! The guarded client, judged by the connections that listeners really accept.

mod fetch;
mod limits;
mod network;
mod proxy;
mod redirects;
mod spellings;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jobforge_connectors::egress::{
    Egress, EgressError, EgressPolicy, EgressSettings, Lookup, Redirects, Request, Response, parse_nets,
};
use reqwest::Method;
use reqwest::header::HeaderMap;
use uuid::Uuid;

/// Long enough for a busy machine; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names with the answers of one look-up after another; the last one stays.
#[derive(Default)]
struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Names> {
        let addresses = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let answers = names.iter().map(|(name, answers)| {
            ((*name).to_owned(), answers.iter().map(addresses).rev().collect::<Vec<Vec<IpAddr>>>())
        });
        Arc::new(Names { answers: Mutex::new(answers.collect()), asked: Mutex::default() })
    }

    /// From now on a name has these addresses.
    fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), vec![addresses]);
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Lookup for Names {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let found = answers
            .get_mut(name)
            .map(|left| if left.len() > 1 { left.pop().unwrap() } else { left[0].clone() });
        let found = found.ok_or_else(|| io::Error::other("no such name"));
        Box::pin(std::future::ready(found))
    }
}

fn settings(allow: &[&str]) -> EgressSettings {
    let policy = EgressPolicy { allow: parse_nets(allow).unwrap(), ..EgressPolicy::default() };
    EgressSettings { policy, ..EgressSettings::default() }
}

fn get(url: &str) -> Request {
    Request {
        method: Method::GET,
        url: url.parse().unwrap(),
        headers: HeaderMap::new(),
        body: None,
        timeout: Duration::from_secs(20),
        max_body: 1 << 20,
        redirects: Redirects::Follow,
    }
}

async fn send(egress: &Egress, url: &str) -> Result<Response, EgressError> {
    egress.send(Uuid::nil(), get(url)).await
}
