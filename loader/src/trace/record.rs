//! A record of the kernel, and the row that it becomes.

use crate::sockets::flows::{address, ca_state};
use bytemuck::{Pod, Zeroable};
use hotcc_host::cstr::text;
use hotcc_host::netns;
use parquet_derive::ParquetRecordWriter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// `struct ack_record` of `ack_trace`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Entry {
    time_ns: u64,
    local: [u8; 16],
    peer: [u8; 16],
    local_port: u16,
    peer_port: u16,
    pub(super) netns: u32,
    map_id: u32,
    cc_name: [u8; 16],
    snd_cwnd: u32,
    snd_ssthresh: u32,
    in_flight: u32,
    srtt_us: u32,
    rtt_us: u32,
    min_rtt_us: u32,
    mss: u32,
    delivered: u32,
    lost: u32,
    total_retrans: u32,
    rate_delivered: u32,
    rate_interval_us: u32,
    snd_wnd: u32,
    bytes_acked: u64,
    pacing_bytes_per_s: u64,
    ca_state: u32,
    pad: u32,
}

/// A row of the file. Columns are only ever added, at the end; docs/guide/trace.md describes them.
#[derive(Clone, Debug, PartialEq, Serialize, ParquetRecordWriter)]
pub(super) struct Row {
    pub(super) time_ns: u64,
    pub(super) netns: String,
    pub(super) local: String,
    pub(super) peer: String,
    pub(super) cc: String,
    pub(super) ca_state: String,
    pub(super) cwnd_segments: u32,
    pub(super) ssthresh_segments: Option<u32>,
    pub(super) in_flight_segments: u32,
    pub(super) rtt_us: Option<u32>,
    pub(super) srtt_us: Option<u32>,
    pub(super) min_rtt_us: Option<u32>,
    pub(super) delivery_bps: Option<u64>,
    pub(super) pacing_bps: Option<u64>,
    pub(super) delivered_segments: u32,
    pub(super) lost_segments: u32,
    pub(super) retransmitted_segments: u32,
    pub(super) acked_bytes: u64,
    pub(super) mss_bytes: u32,
    pub(super) receive_window_bytes: u32,
}

impl Entry {
    pub(super) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (address(self.local, self.local_port), address(self.peer, self.peer_port))
    }

    pub(super) fn row(&self, namespaces: &mut Namespaces) -> Row {
        let set = |value: u32| (value != 0).then_some(value);
        let (local, peer) = self.ends();
        let delivered_bits = u64::from(self.rate_delivered) * u64::from(self.mss) * 8;
        Row {
            time_ns: self.time_ns,
            netns: namespaces.label(self.netns),
            local: local.to_string(),
            peer: peer.to_string(),
            cc: text(&self.cc_name),
            ca_state: ca_state(self.ca_state).to_owned(),
            cwnd_segments: self.snd_cwnd,
            ssthresh_segments: Some(self.snd_ssthresh).filter(|segments| *segments < i32::MAX as u32),
            in_flight_segments: self.in_flight,
            rtt_us: set(self.rtt_us),
            srtt_us: set(self.srtt_us),
            min_rtt_us: set(self.min_rtt_us).filter(|us| *us != u32::MAX),
            delivery_bps: (delivered_bits * 1_000_000).checked_div(self.rate_interval_us.into()).filter(|bps| *bps > 0),
            pacing_bps: self.pacing_bytes_per_s.checked_mul(8),
            delivered_segments: self.delivered,
            lost_segments: self.lost,
            retransmitted_segments: self.total_retrans,
            acked_bytes: self.bytes_acked,
            mss_bytes: self.mss,
            receive_window_bytes: self.snd_wnd,
        }
    }
}

/// Names of network namespaces.
#[derive(Default)]
pub(super) struct Namespaces(BTreeMap<u32, String>);

impl Namespaces {
    /// Returns the label of the namespace with this inode, as `hotcc flows` shows it, or `net:[INODE]` if no process or
    /// mount has it.
    fn label(&mut self, inode: u32) -> String {
        if !self.0.contains_key(&inode) {
            let all = netns::all().unwrap_or_default();
            let known = all.iter().filter_map(|ns| Some((u32::try_from(ns.inode).ok()?, ns.label())));
            self.0.extend(known);
        }
        self.0.entry(inode).or_insert_with(|| format!("net:[{inode}]")).clone()
    }
}
