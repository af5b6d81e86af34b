//! Stories of the worker, on a real Postgres, as the login roles of production.

mod faults;
mod leases;
mod running;
mod shutdown;
mod sleeping;
mod support;
