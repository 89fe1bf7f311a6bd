//! Attaches TC programs to interfaces, finds them again after a crash, and detaches them cleanly.
//!
//! On Linux 6.6 or later, a program is attached by a TCX link, which is pinned: the link stays when the process that
//! made it is killed, and the next process replaces the program behind the same link. On older kernels, it is attached
//! by a filter of the clsact queueing discipline, which stays without a pin. The filter is identified by its priority,
//! its handle and its program's tag; the program is pinned to record that the filter is ours. With either method, there
//! is never a second copy of the program, and never a moment without it.

use crate::netlink::{Filter, filters};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, ProgramInfo, SchedClassifier, TcAttachType, TcError};
use hotcc_host::error::{Error, Kind, Result, Tried};
use nix::errno::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Priority of our filters: low enough to see packets before most others, as an observer should.
pub const FILTER_PRIORITY: u16 = 4713;

/// Maximum time for a link to disappear once nothing holds it.
const LINKS_END: Duration = Duration::from_secs(2);

/// How programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// TCX if the kernel has it (Linux 6.6), else clsact.
    #[default]
    Auto,
    /// A TCX link; needs Linux 6.6 or later.
    Tcx,
    /// A filter of the clsact queueing discipline.
    Clsact,
}

/// A place where a program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What the program does there; part of the pin's name.
    pub role: &'static str,
    /// Distinguishes the program from our other programs at the same place.
    pub number: u16,
    /// Name of the interface.
    pub interface: String,
    /// Ingress or egress.
    pub direction: TcAttachType,
}

impl Hook {
    /// Returns the index of the interface in the thread's network namespace.
    ///
    /// # Errors
    /// There is no interface of that name.
    pub fn ifindex(&self) -> Result<u32> {
        nix::net::if_::if_nametoindex(self.interface.as_str())
            .tried(|| format!("cannot attach to `{}`: no such interface", self.interface))
    }

    fn handle(&self) -> TcHandle {
        TcHandle::new(0, self.number)
    }

    /// Returns the direction as `tc` names it.
    fn side(&self) -> &'static str {
        if self.direction == TcAttachType::Egress { "egress" } else { "ingress" }
    }

    fn describe(&self) -> String {
        format!("{} of {}", self.side(), self.interface)
    }
}

/// An attached program. It stays attached when this value is dropped, except by a link without a pin;
/// [`Attachment::detach`] detaches it.
#[derive(Debug)]
pub struct Attachment {
    hook: Hook,
    ifindex: u32,
    program_id: u32,
    pin: Option<PathBuf>,
    place: Place,
    /// Whether it replaced a program that another process left there.
    pub is_adopted: bool,
}

#[derive(Debug)]
enum Place {
    Link(FdLink),
    Filter,
}

/// Prefixes of the names of pins: what is pinned.
const LINK: &str = "link";
const FILTER: &str = "filter";

fn pin_name(kind: &str, hook: &Hook, ifindex: u32) -> String {
    format!("{kind}_{}_{}_{ifindex}", hook.role, hook.number)
}

/// Attaches a loaded program, or replaces the program that an earlier process left there. Without `pins`, a link ends
/// with its process, and a filter is identified only by its program's tag.
///
/// # Errors
/// The interface is gone, the kernel refuses, or a filter of another program has our priority and handle.
pub fn attach(program: &mut SchedClassifier, hook: &Hook, pins: Option<&Path>, method: Method) -> Result<Attachment> {
    let ifindex = hook.ifindex()?;
    let attached = match method {
        Method::Tcx => attach_link(program, hook, ifindex, pins)?,
        Method::Clsact => None,
        Method::Auto => match attach_link(program, hook, ifindex, pins) {
            Err(error) if error.kind() == Kind::KernelLacks => None,
            attached => attached?,
        },
    };
    let attachment = match attached {
        Some(attachment) => attachment,
        None => attach_filter(program, hook, ifindex, pins)?,
    };
    attachment.check_alone(program)?;
    if let Some(pins) = pins {
        take_off_other_way(&attachment, program, pins)?;
    }
    Ok(attachment)
}

/// Detaches what an earlier process attached to the same hook by the other method.
fn take_off_other_way(attachment: &Attachment, program: &SchedClassifier, pins: &Path) -> Result<()> {
    let Attachment { hook, ifindex, .. } = attachment;
    match attachment.place {
        Place::Link(_) => {
            let (tag, pin) = (program_info(program)?.tag(), pins.join(pin_name(FILTER, hook, *ifindex)));
            if our_filter(hook, *ifindex)?.is_some_and(|filter| is_ours(&filter, tag, Some(&pin))) {
                take_off_filter(hook)?;
            }
            if pin.exists() { remove_pin(&pin) } else { Ok(()) }
        }
        Place::Filter => {
            let pin = pins.join(pin_name(LINK, hook, *ifindex));
            if pin.exists() { take_off_link(hook, &pin) } else { Ok(()) }
        }
    }
}

/// Removes a link that only its pin holds, and waits until the link is gone, which takes a moment.
fn take_off_link(hook: &Hook, pin: &Path) -> Result<()> {
    let program_id = PinnedLink::from_pin(pin).ok().and_then(|link| Some(FdLink::from(link).info().ok()?.program_id()));
    remove_pin(pin)?;
    let began = Instant::now();
    while linked(hook)?.iter().any(|program| Some(program.id()) == program_id) {
        if began.elapsed() > LINKS_END {
            let still = format!("program {} is still attached", program_id.unwrap_or_default());
            return Err(Error::failed(still).during(&format!("cannot detach from the {} (TCX)", hook.describe())));
        }
        std::thread::sleep(LINKS_END / 100);
    }
    Ok(())
}

/// Returns the programs attached to the hook by TCX.
fn linked(hook: &Hook) -> Result<Vec<ProgramInfo>> {
    let found = SchedClassifier::query_tcx(&hook.interface, hook.direction);
    Ok(found.tried(|| format!("cannot list the programs attached to the {}", hook.describe()))?.1)
}

fn take_off_filter(hook: &Hook) -> Result<()> {
    // dropping the link removes the filter
    drop(filter_link(hook).tried(|| format!("cannot detach from the {} (clsact)", hook.describe()))?);
    Ok(())
}

fn remove_pin(pin: &Path) -> Result<()> {
    fs::remove_file(pin).tried(|| format!("cannot remove {}", pin.display()))
}

/// Whether a filter with our priority and handle has this program, or the one that was pinned with it.
fn is_ours(filter: &Filter, tag: u64, pin: Option<&Path>) -> bool {
    let pinned = pin.and_then(|pin| ProgramInfo::from_pin(pin).ok()).map(|info| info.tag());
    filter.tag.is_some_and(|found| found == tag || Some(found) == pinned)
}

fn program_info(program: &SchedClassifier) -> Result<ProgramInfo> {
    program.info().tried(|| "cannot read the information of a loaded program".to_owned())
}

fn attach_link(
    program: &mut SchedClassifier,
    hook: &Hook,
    ifindex: u32,
    pins: Option<&Path>,
) -> Result<Option<Attachment>> {
    let pin = pins.map(|pins| pins.join(pin_name(LINK, hook, ifindex)));
    let tried = || format!("cannot attach to the {} (TCX)", hook.describe());
    if let Some(path) = &pin
        && let Some(link) = adopt_link(program, hook, path)?
    {
        let program_id = program_info(program)?.id();
        let place = Place::Link(link);
        return Ok(Some(Attachment { hook: hook.clone(), ifindex, program_id, pin, place, is_adopted: true }));
    }
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    let attached = program.attach_with_options(&hook.interface, hook.direction, options).tried(tried);
    let id = attached.map_err(|error| match error.io().and_then(std::io::Error::raw_os_error) {
        Some(nix::libc::EINVAL) => {
            error.as_kind(Kind::KernelLacks).and("TCX needs Linux 6.6 or later: use --attach clsact")
        }
        _ => error,
    })?;
    let link: FdLink = program.take_link(id).tried(tried)?.try_into().tried(tried)?;
    let link = match &pin {
        Some(path) => link.pin(path).tried(|| format!("cannot pin a link at {}", path.display()))?.into(),
        None => link,
    };
    let place = Place::Link(link);
    let program_id = program_info(program)?.id();
    Ok(Some(Attachment { hook: hook.clone(), ifindex, program_id, pin, place, is_adopted: false }))
}

/// Replaces the program behind a pinned link. If that fails, e.g. because the link's interface is gone, removes the pin
/// and returns `None`.
fn adopt_link(program: &mut SchedClassifier, hook: &Hook, pin: &Path) -> Result<Option<FdLink>> {
    if !pin.exists() {
        return Ok(None);
    }
    let tried = || format!("cannot reuse the link {}", pin.display());
    let mut replaced = || -> Result<FdLink> {
        let link = SchedClassifierLink::try_from(FdLink::from(PinnedLink::from_pin(pin).tried(tried)?)).tried(tried)?;
        let id = program.attach_to_link(link).tried(tried)?;
        let link = program.take_link(id).tried(tried)?.try_into().tried(tried)?;
        let program_id = program_info(program).tried(tried)?.id();
        if linked(hook).tried(tried)?.iter().any(|found| found.id() == program_id) {
            return Ok(link);
        }
        let elsewhere = format!("it belongs to an interface {} in another network namespace", hook.interface);
        Err(Error::failed(elsewhere).during(&tried()))
    };
    match replaced() {
        Ok(link) => Ok(Some(link)),
        Err(error) => {
            tracing::warn!("{error:#}; a new link replaces it");
            remove_pin(pin)?;
            Ok(None)
        }
    }
}

fn attach_filter(program: &mut SchedClassifier, hook: &Hook, ifindex: u32, pins: Option<&Path>) -> Result<Attachment> {
    let tried = || format!("cannot attach to the {} (clsact)", hook.describe());
    let pin = pins.map(|pins| pins.join(pin_name(FILTER, hook, ifindex)));
    match tc::qdisc_add_clsact(&hook.interface) {
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(Errno::EEXIST as i32) => {}
        added => added.tried(tried)?,
    }
    let info = program_info(program)?;
    let present = our_filter(hook, ifindex)?;
    if let Some(present) = &present {
        if !is_ours(present, info.tag(), pin.as_deref()) {
            let foreign = format!(
                "the filter `{}` of another program has priority {FILTER_PRIORITY} and handle {}",
                present.name, hook.number
            );
            let advice = format!(
                "move it to another priority, or if a pep-agent left it, remove it: tc filter del dev {} {} pref {FILTER_PRIORITY}",
                hook.interface,
                hook.side()
            );
            return Err(Error::failed(foreign).and(&advice).during(&tried()));
        }
        let id = program.attach_to_link(filter_link(hook).tried(tried)?).tried(tried)?;
        std::mem::forget(program.take_link(id).tried(tried)?); // dropping it would remove the filter
    } else {
        let options = NlOptions { priority: FILTER_PRIORITY, handle: hook.handle(), classid: None };
        let attached = program.attach_with_options(&hook.interface, hook.direction, TcAttachOptions::Netlink(options));
        std::mem::forget(program.take_link(attached.tried(tried)?).tried(tried)?);
    }
    if let Some(pin) = &pin {
        if pin.exists() {
            if present.is_none() {
                elsewhere(pin);
            }
            remove_pin(pin)?;
        }
        program.pin(pin).tried(|| format!("cannot pin a program at {}", pin.display()))?;
    }
    let (hook, is_adopted) = (hook.clone(), present.is_some());
    Ok(Attachment { hook, ifindex, program_id: info.id(), pin, place: Place::Filter, is_adopted })
}

/// Returns our filter as a link, with which aya replaces or removes it.
fn filter_link(hook: &Hook) -> std::io::Result<SchedClassifierLink> {
    SchedClassifierLink::attached(&hook.interface, hook.direction, FILTER_PRIORITY, hook.handle(), None)
}

fn our_filter(hook: &Hook, ifindex: u32) -> Result<Option<Filter>> {
    let all = filters(ifindex, hook.direction)?;
    Ok(all.into_iter().find(|f| f.priority == FILTER_PRIORITY && f.handle == u32::from(hook.number)))
}

impl Attachment {
    /// Returns the place where the program is attached.
    #[must_use]
    pub fn hook(&self) -> &Hook {
        &self.hook
    }

    /// Returns `tcx` or `clsact`.
    #[must_use]
    pub fn method(&self) -> &'static str {
        if matches!(self.place, Place::Link(_)) { "tcx" } else { "clsact" }
    }

    /// Checks with the kernel that the program is attached, and that no other copy of it is.
    fn check_alone(&self, program: &SchedClassifier) -> Result<()> {
        let tag = program_info(program)?.tag();
        let found: Vec<u32> = match self.place {
            Place::Link(_) => linked(&self.hook)?.iter().filter(|p| p.tag() == tag).map(ProgramInfo::id).collect(),
            Place::Filter => filters(self.ifindex, self.hook.direction)?
                .iter()
                .filter(|f| f.tag == Some(tag))
                .filter_map(|f| f.program_id)
                .collect(),
        };
        if found == [self.program_id] {
            return Ok(());
        }
        Err(Error::failed(format!(
            "attached program {} to the {}, but the kernel lists programs {found:?} with the same tag there",
            self.program_id,
            self.hook.describe()
        )))
    }

    /// Returns what is wrong if the program is no longer attached, else `None`. Needs no privilege.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        if self.hook.ifindex().ok() != Some(self.ifindex) {
            return Some(Error::failed(format!("interface {} is gone", self.hook.interface)));
        }
        let place = self.hook.describe();
        let id = match &self.place {
            Place::Link(link) => {
                link.info().map(|info| Some(info.program_id())).tried(|| format!("cannot query the {place}"))
            }
            Place::Filter => our_filter(&self.hook, self.ifindex).map(|f| f.and_then(|f| f.program_id)),
        };
        match id {
            Ok(id) if id == Some(self.program_id) => None,
            Ok(Some(id)) => {
                Some(Error::failed(format!("program {id} replaced program {} at the {place}", self.program_id)))
            }
            Ok(None) => Some(Error::failed(format!("program {} is detached from the {place}", self.program_id))),
            Err(error) => Some(error),
        }
    }

    /// Detaches the program. The clsact queueing discipline stays: other programs may use it by now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(self) -> Result<()> {
        let tried = || format!("cannot detach from the {}", self.hook.describe());
        let is_there = self.hook.ifindex().ok() == Some(self.ifindex);
        if matches!(self.place, Place::Filter)
            && is_there
            && our_filter(&self.hook, self.ifindex)?.is_some_and(|f| f.program_id == Some(self.program_id))
        {
            drop(filter_link(&self.hook).tried(tried)?); // dropping it removes the filter
            if our_filter(&self.hook, self.ifindex)?.is_some() {
                return Err(Error::failed("the filter is still there").during(&tried()));
            }
        }
        self.pin.map_or(Ok(()), |pin| fs::remove_file(pin).tried(tried))
    }
}

/// Detaches what a killed process left at hooks that are not in `wanted`.
///
/// # Errors
/// A pin cannot be removed, or an interface's filters cannot be read.
pub fn remove_left_over(pins: &Path, wanted: &[Hook]) -> Result<()> {
    let mut keep = Vec::new();
    for hook in wanted {
        let ifindex = hook.ifindex()?;
        keep.extend([LINK, FILTER].map(|kind| pin_name(kind, hook, ifindex)));
    }
    for entry in fs::read_dir(pins).tried(|| format!("cannot read {}", pins.display()))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut parts = name.split('_');
        let is_filter = match parts.next() {
            Some(LINK) => false,
            Some(FILTER) => true,
            _ => continue,
        };
        if keep.contains(&name) {
            continue;
        }
        let mut is_gone = true;
        if is_filter {
            let numbers = parts.skip(1).filter_map(|n| n.parse().ok()).collect::<Vec<u32>>();
            if let (&[number, ifindex], Ok(info)) = (&numbers[..], ProgramInfo::from_pin(entry.path()))
                && !remove_filter(number, ifindex, info.id())?
            {
                is_gone = false;
            }
        }
        if is_gone {
            tracing::info!("removed {name}, which an earlier process left: the options no longer ask for it");
        } else {
            elsewhere(&entry.path());
        }
        remove_pin(&entry.path())?;
    }
    Ok(())
}

/// Warns that the filter of a pinned program cannot be found.
fn elsewhere(pin: &Path) {
    tracing::warn!(
        "cannot find the filter of {} on its interface: if a pep-agent in another network namespace left it, remove it \
         there: tc filter del dev INTERFACE ingress pref {FILTER_PRIORITY}",
        pin.display()
    );
}

/// Removes filters with our priority, this number and a program of this name from all interfaces of this network
/// namespace except `wanted`. Without pins, nothing else identifies what a killed process left.
///
/// # Errors
/// The interfaces or their filters cannot be listed.
pub fn remove_unpinned(name: &str, number: u16, direction: TcAttachType, wanted: &[String]) -> Result<()> {
    let interfaces = nix::net::if_::if_nameindex().tried(|| "cannot list the network interfaces".to_owned())?;
    for found in &interfaces {
        let interface = found.name().to_string_lossy().into_owned();
        let hook = Hook { role: "", number, interface, direction };
        if !wanted.contains(&hook.interface) && our_filter(&hook, found.index())?.is_some_and(|f| f.name == name) {
            take_off_filter(&hook)?;
            tracing::info!(
                "removed the filter at the {}, which an earlier process left: the options no longer ask for it",
                hook.describe()
            );
        }
    }
    Ok(())
}

/// Removes the filter from the interface's ingress or egress. Returns `false` if the filter is not found; it ended with
/// its interface if that is gone.
fn remove_filter(number: u32, ifindex: u32, program_id: u32) -> Result<bool> {
    let Ok(interface) = nix::net::if_::if_indextoname(ifindex) else { return Ok(false) };
    let (interface, number) = (interface.to_string_lossy().into_owned(), u16::try_from(number).unwrap_or(0));
    for direction in [TcAttachType::Ingress, TcAttachType::Egress] {
        let hook = Hook { role: "", number, interface: interface.clone(), direction };
        if our_filter(&hook, ifindex)?.is_some_and(|f| f.program_id == Some(program_id)) {
            return Ok(filter_link(&hook).is_ok()); // dropping it removes the filter
        }
    }
    Ok(false)
}
