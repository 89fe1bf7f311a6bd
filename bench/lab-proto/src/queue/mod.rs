//! Queueing disciplines: which packet a queue sends next, and which it drops or marks.
//!
//! The lab's thread that carries packets and the simulator use the same code. Its only randomness comes from a seed.

mod codel;
mod dualpi2;
mod fq_codel;
mod packet;

use codel::Codel;
use dualpi2::DualPi2;
use fq_codel::FqCodel;
use packet::Fifo;

pub use packet::{Ecn, Header, Kind, Parameters, Queued, flow_key};

/// A queue.
#[derive(Debug)]
pub struct Queue<T> {
    discipline: Discipline<T>,
    limit_bytes: u64,
}

#[derive(Debug)]
enum Discipline<T> {
    DropTail(Fifo<T>),
    Codel(Fifo<T>, Codel),
    FqCodel(Box<FqCodel<T>>),
    DualPi2(Box<DualPi2<T>>),
}

impl<T> Queue<T> {
    /// Creates an empty queue; without `parameters`, it is drop-tail.
    #[must_use]
    pub fn new(limit_bytes: u64, parameters: Option<Parameters>) -> Self {
        let discipline = match parameters {
            None => Discipline::DropTail(Fifo::default()),
            Some(p) => match p.kind {
                Kind::Codel => Discipline::Codel(Fifo::default(), Codel::new(&p)),
                Kind::FqCodel => Discipline::FqCodel(Box::new(FqCodel::new(&p))),
                Kind::Dualpi2 => Discipline::DualPi2(Box::new(DualPi2::new(&p))),
            },
        };
        Self { discipline, limit_bytes }
    }

    /// Adds a packet. `ahead_bytes` have left the queue, but count towards its limit. Appends the packets that are
    /// dropped for lack of room to `dropped`.
    pub fn enqueue(&mut self, now_ns: u64, ahead_bytes: u64, packet: Queued<T>, dropped: &mut Vec<Queued<T>>) {
        let fits = self.bytes() + ahead_bytes + u64::from(packet.header.bytes) <= self.limit_bytes;
        match &mut self.discipline {
            Discipline::FqCodel(queue) => {
                queue.enqueue(packet);
                if !fits {
                    queue.shrink(self.limit_bytes.saturating_sub(ahead_bytes), dropped);
                }
            }
            _ if !fits => dropped.push(packet),
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.push(packet),
            Discipline::DualPi2(queue) => queue.enqueue(now_ns, packet),
        }
    }

    /// Takes the packet to send next. Appends the packets that the discipline drops to `dropped`.
    pub fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Queued<T>>) -> Option<Queued<T>> {
        match &mut self.discipline {
            Discipline::DropTail(queue) => queue.pop(),
            Discipline::Codel(queue, codel) => codel.dequeue(now_ns, queue, 0, dropped),
            Discipline::FqCodel(queue) => queue.dequeue(now_ns, dropped),
            Discipline::DualPi2(queue) => queue.dequeue(now_ns, dropped),
        }
    }

    /// Returns the bytes in the queue.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.bytes,
            Discipline::FqCodel(queue) => queue.bytes(),
            Discipline::DualPi2(queue) => queue.bytes(),
        }
    }

    /// Returns whether no packet waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Returns the time of arrival of the oldest packet.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        match &self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.oldest_ns(),
            Discipline::FqCodel(queue) => queue.oldest_ns(),
            Discipline::DualPi2(queue) => queue.oldest_ns(),
        }
    }

    /// Takes all packets, as they are.
    pub fn drain(&mut self) -> Vec<Queued<T>> {
        match &mut self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.drain(),
            Discipline::FqCodel(queue) => queue.drain(),
            Discipline::DualPi2(queue) => queue.drain(),
        }
    }
}

#[cfg(test)]
mod testing;
