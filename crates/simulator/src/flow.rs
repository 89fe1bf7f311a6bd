//! One flow: its two ends, its start and its end.

use crate::clock::timer_fires_ns;
use crate::packet::{Ack, Content, Packet};
use crate::receiver::{Receiver, clock_ms};
use crate::sender::Sender;
use hotcc_lab_proto::plan::{Pace, PlannedFlow};
use hotcc_lab_proto::run_record::FlowEnd;
use std::net::Ipv4Addr;

/// `TCP_TIMEOUT_INIT`: 1 s until a SYN is retransmitted, in jiffies.
const SYN_TICKS: u64 = 250;
/// `tcp_syn_linear_timeouts`: number of timeouts of a SYN before the timeout doubles.
const LINEAR_TIMEOUTS: u32 = 4;

/// One flow.
pub(crate) struct Flow {
    /// Index in the plan.
    pub place: u16,
    /// Hosts of the flow's sender and receiver.
    pub hosts: (usize, usize),
    /// Addresses of the flow's sender and receiver.
    pub addresses: (Ipv4Addr, Ipv4Addr),
    /// Name of the flow's congestion control.
    pub cc: String,
    bytes_wanted: Option<u64>,
    ends: Ends,
    ecn: bool,
    /// Time at which the receiver had all bytes.
    complete_ns: Option<u64>,
    is_stopped: bool,
    end: Option<FlowEnd>,
    /// The earliest wake-up that is already in the queue of events.
    pub scheduled_ns: Option<u64>,
}

enum Ends {
    Tcp(Box<Tcp>),
    Udp(Udp),
}

struct Tcp {
    sender: Sender,
    receiver: Receiver,
    syn_sent_ns: u64,
    syn_due_ns: Option<u64>,
    syns: u32,
}

struct Udp {
    pace: Pace,
    left: u64,
    next_ns: u64,
    received: u64,
}

impl Flow {
    fn new(place: u16, planned: &PlannedFlow, source: Ipv4Addr, ends: Ends) -> Self {
        Self {
            place,
            hosts: (planned.from, planned.to),
            addresses: (source, planned.address),
            cc: planned.cc.clone().unwrap_or_else(|| "udp".to_owned()),
            bytes_wanted: planned.bytes,
            ends,
            ecn: false,
            complete_ns: None,
            is_stopped: false,
            end: None,
            scheduled_ns: None,
        }
    }

    /// Creates a TCP flow.
    pub fn tcp(
        place: u16,
        planned: &PlannedFlow,
        source: Ipv4Addr,
        sender: Sender,
        receiver: Receiver,
        ecn: bool,
    ) -> Self {
        let tcp = Tcp { sender, receiver, syn_sent_ns: 0, syn_due_ns: Some(planned.start_ns), syns: 0 };
        Self { ecn, ..Self::new(place, planned, source, Ends::Tcp(Box::new(tcp))) }
    }

    /// Creates a UDP flow.
    pub fn udp(place: u16, planned: &PlannedFlow, source: Ipv4Addr, pace: Pace) -> Self {
        let left = planned.bytes.unwrap_or(u64::MAX);
        Self::new(place, planned, source, Ends::Udp(Udp { pace, left, next_ns: planned.start_ns, received: 0 }))
    }

    /// Returns the sender; `None` for UDP.
    pub fn sender(&mut self) -> Option<&mut Sender> {
        match &mut self.ends {
            Ends::Tcp(tcp) => Some(&mut tcp.sender),
            Ends::Udp(_) => None,
        }
    }

    /// Returns the next time at which the flow is due.
    pub fn next_ns(&self) -> Option<u64> {
        if self.is_stopped {
            return None;
        }
        match &self.ends {
            Ends::Tcp(tcp) => {
                let ends = tcp.sender.next_ns().into_iter().chain(tcp.receiver.next_timer_ns());
                ends.chain(tcp.syn_due_ns).min()
            }
            Ends::Udp(udp) => (udp.left > 0).then_some(udp.next_ns),
        }
    }

    /// Does what is due, and adds the packets to send to `out`.
    pub fn wake(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        if self.is_stopped {
            return;
        }
        match &mut self.ends {
            Ends::Tcp(tcp) => {
                if tcp.syn_due_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                    tcp.syn_sent_ns = now_ns;
                    let doublings = tcp.syns.saturating_sub(LINEAR_TIMEOUTS).min(6);
                    tcp.syn_due_ns = Some(timer_fires_ns(now_ns, SYN_TICKS << doublings));
                    tcp.syns += 1;
                    tcp.sender.out.push(Content::Syn);
                }
                if let Some(ack) = tcp.receiver.timer(now_ns) {
                    tcp.sender.out.push(Content::Ack(ack));
                }
                if tcp.sender.next_write_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    tcp.sender.application_writes(now_ns);
                }
                if tcp.sender.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    tcp.sender.timer(now_ns);
                }
            }
            Ends::Udp(udp) => {
                while udp.left > 0 && udp.next_ns <= now_ns {
                    udp.next_ns += udp.pace.interval_ns;
                    udp.left = udp.left.saturating_sub(udp.pace.write_bytes.into());
                    let content = Content::Datagram(udp.pace.write_bytes);
                    out.push(Packet { flow: self.place, ect: false, ce: false, content });
                }
            }
        }
        self.send(now_ns, out);
    }

    /// Takes a packet of the flow that arrives at its end, and adds the packets to send to `out`.
    pub fn arrive(&mut self, now_ns: u64, packet: &Packet, out: &mut Vec<Packet>) {
        if self.is_stopped {
            return;
        }
        match &mut self.ends {
            Ends::Tcp(tcp) => {
                tcp.arrive(now_ns, packet);
                let received = tcp.receiver.received();
                if self.complete_ns.is_none() && self.bytes_wanted.is_some_and(|wanted| received >= wanted) {
                    self.complete_ns = Some(now_ns);
                    // the receiver closes
                    let ack = tcp.receiver.ack();
                    tcp.sender.out.push(Content::Fin(ack));
                }
            }
            Ends::Udp(udp) => {
                if let Content::Datagram(bytes) = packet.content {
                    udp.received += u64::from(bytes);
                    if self.complete_ns.is_none() && self.bytes_wanted.is_some_and(|wanted| udp.received >= wanted) {
                        self.complete_ns = Some(now_ns);
                    }
                }
            }
        }
        self.send(now_ns, out);
    }

    /// Lets the sender process the receiver's last ACK again, and adds the packets to send to `out`.
    pub fn clock(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        if let Some(sender) = self.sender() {
            sender.clock(now_ns);
        }
        self.send(now_ns, out);
    }

    /// Stops the flow, unless it has been stopped.
    pub fn stop(&mut self, now_ns: u64) {
        if self.is_stopped {
            return;
        }
        self.is_stopped = true;
        let (bytes, (retransmits, timeouts), receiver) = match &self.ends {
            Ends::Tcp(tcp) => {
                let counters = tcp.receiver.counters(tcp.sender.ece_segments());
                (tcp.receiver.received(), tcp.sender.repeats(), Some(counters))
            }
            Ends::Udp(udp) => (udp.received, (0, 0), None),
        };
        self.end = Some(FlowEnd {
            cc: self.cc.clone(),
            bytes: self.bytes_wanted.map_or(bytes, |wanted| bytes.min(wanted)),
            end_ns: self.complete_ns.unwrap_or(now_ns),
            complete: self.bytes_wanted.is_none() || self.complete_ns.is_some(),
            retransmits,
            timeouts,
            receiver,
            error: None,
        });
    }

    /// Returns whether the flow was stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns the flow's final state.
    pub fn end(&self) -> FlowEnd {
        self.end.clone().unwrap_or_default()
    }

    fn send(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        let (flow, ecn) = (self.place, self.ecn);
        if let Ends::Tcp(tcp) = &mut self.ends {
            let packet = |mut content| {
                if let Content::Ack(ack) | Content::Fin(ack) = &mut content {
                    ack.stamp_ms = clock_ms(now_ns);
                }
                // RFC 3168, section 6.1.5: retransmissions are not ECN-capable
                let ect = ecn && matches!(content, Content::Data(data) if !data.is_retransmission);
                Packet { flow, ect, ce: false, content }
            };
            out.extend(tcp.sender.out.drain(..).map(packet));
        }
    }
}

impl Tcp {
    fn arrive(&mut self, now_ns: u64, packet: &Packet) {
        match packet.content {
            Content::Syn => self.sender.out.push(Content::SynAck),
            Content::SynAck if !self.sender.is_connected() => {
                self.syn_due_ns = None;
                let rtt_us = (now_ns - self.syn_sent_ns) / 1000;
                self.sender.connected(now_ns, u32::try_from(rtt_us).unwrap_or(u32::MAX));
            }
            Content::Data(data) => {
                let ack = self.receiver.data(now_ns, &data, packet.ect, packet.ce);
                self.sender.out.extend(self.receiver.take_flushed().into_iter().chain(ack).map(Content::Ack));
            }
            Content::Ack(ack) => self.acknowledge(now_ns, &ack),
            Content::Fin(ack) => {
                self.acknowledge(now_ns, &ack);
                self.sender.out.push(Content::Empty);
            }
            Content::SynAck | Content::Empty | Content::Datagram(_) => {}
            Content::Report(_) | Content::Probe(_) | Content::Echo(_) => {} // they are no flow's
        }
    }

    fn acknowledge(&mut self, now_ns: u64, ack: &Ack) {
        if self.sender.is_connected() {
            self.sender.acknowledge(now_ns, ack);
        }
    }
}
