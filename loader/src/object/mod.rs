//! Finds, opens, describes, prepares and loads BPF objects. Nothing here registers them.

pub(crate) mod btf;
pub mod describe;
pub mod kernel;
pub(crate) mod libbpf_log;
pub(crate) mod load_error;
mod name;
mod opened;
mod ops_table;
pub mod prepare;
mod rehearsal;
pub mod signals;
mod source;

pub use name::{CC_NAME_MAX, check_cc_name};
pub use opened::{Loaded, Opened};
pub use source::Source;
