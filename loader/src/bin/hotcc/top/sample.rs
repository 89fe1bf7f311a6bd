//! Reads from the kernel what the views of `hotcc top` show.

use hotcc::live::{Flow, Link, links, with_signal};
use hotcc::sockets::flows::FlowLister;
use hotcc::status::status;
use hotcc_host::error::Result;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Flows,
    Algorithms,
    Links,
}

/// A congestion control; the fields that only hotcc records are `None` for those that it did not load.
pub struct Algorithm {
    pub name: String,
    /// What serves: an object and its profile, or the kind of a congestion control that hotcc did not load.
    pub serves: String,
    pub connections: u64,
    pub older: Option<u64>,
    pub listeners: u64,
    pub swaps: Option<u64>,
    /// What a rollback restores.
    pub previous: Option<String>,
}

/// What one view shows.
pub enum Sample {
    Flows(Vec<Flow>),
    Algorithms(Vec<Algorithm>),
    Links(Vec<Link>),
}

pub struct Sampler(FlowLister);

impl Sampler {
    pub fn new() -> Result<Self> {
        FlowLister::without_state("hotcc top").map(Self)
    }

    pub fn take(&self, view: View) -> Result<Sample> {
        Ok(match view {
            View::Flows => Sample::Flows(with_signal(self.0.list()?)?),
            View::Algorithms => Sample::Algorithms(algorithms()?),
            View::Links => Sample::Links(links()?),
        })
    }
}

fn algorithms() -> Result<Vec<Algorithm>> {
    let status = status()?;
    let ours = status.algorithms.into_iter().map(|a| Algorithm {
        serves: format!("{} ({})", a.object, a.profile),
        connections: a.connections_current,
        older: Some(a.connections_older),
        listeners: a.listeners,
        swaps: Some(a.swaps),
        previous: a.previous_object,
        name: a.name,
    });
    let others = status.others.into_iter().map(|o| Algorithm {
        serves: o.description().to_owned(),
        connections: o.connections,
        older: None,
        listeners: o.listeners,
        swaps: None,
        previous: None,
        name: o.name,
    });
    Ok(ours.chain(others).collect())
}
