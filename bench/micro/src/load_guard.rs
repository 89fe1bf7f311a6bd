//! A congestion control that is loaded as by `hotcc load`, and only while a measure runs.

use anyhow::Result;
use hotcc::ops::{self, Request};

/// Unloads a congestion control when it is dropped. Kernels before Linux 6.4 have no links of struct_ops, and would keep
/// it after this process has ended.
#[derive(Debug)]
pub struct LoadGuard(String);

impl LoadGuard {
    /// Loads an object as `name`, so that it is beside the one that may be loaded already.
    pub fn load(object: &str, name: &str) -> Result<Self> {
        ops::load(&request(object, name))?;
        Ok(Self::adopt(name))
    }

    /// Guards a congestion control that was loaded in another way.
    pub fn adopt(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        // reno is built in, and any network namespace may have the congestion control as its default
        if let Err(error) = ops::unload(&self.0, Some("reno")) {
            eprintln!("  {error:#}");
        }
    }
}

/// Returns the request for an object under another name, with the default profile.
pub fn request(object: &str, name: &str) -> Request {
    Request {
        object: object.to_owned(),
        cc_name: Some(name.to_owned()),
        profile: "default".to_owned(),
        set: Vec::new(),
    }
}
