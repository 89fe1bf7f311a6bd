//! Applies the rules to sockets that are already open.

use super::kernel::{OBJECT, current, only, prepare_for_current};
use super::layout::Moved;
use crate::sockets::walk::SocketWalk;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::netns;
use libbpf_rs::{MapCore, MapFlags};

const MOVE: &str = "move";

/// Gives each open socket the congestion control of its rule; with `only_count`, only counts the sockets. Call it with
/// the lock held, unless it only counts.
pub(crate) fn move_open(only_count: bool) -> Result<Moved> {
    let Some(current) = current()? else { return Ok(Moved::default()) };
    let walk = SocketWalk::load(OBJECT, |open| {
        only(open, MOVE);
        prepare_for_current(open, &current, only_count)
    })?;
    netns::in_each(|ns| walk.run(ns))?;
    let value = walk.map(".bss")?.lookup(&[0; 4], MapFlags::empty());
    let value = value.tried(|| "cannot read the number of moved sockets".to_owned())?.unwrap_or_default();
    bytemuck::try_pod_read_unaligned(&value).map_err(|_| Error::failed("the policy's program has another layout"))
}
