//! The BPF objects that are built into this program: their bytes, and the programs and maps of a loaded one.

use aya::Ebpf;
use aya::maps::{Map, MapError};
use aya::programs::{Program, ProgramError};
use hotcc_host::error::{Error, Result, Tried};

/// Returns the bytes of the object of that name.
///
/// # Errors
/// The build left it out.
pub fn bytes(name: &str) -> Result<&'static [u8]> {
    let object = hotcc_bpf::prog(name).map(|object| object.bytes);
    object.ok_or_else(|| Error::failed(format!("this pep-agent was built without the BPF object `{name}`")))
}

/// Returns a program of a loaded object.
///
/// # Errors
/// The object has no program of that name and type.
pub fn program<'a, P>(ebpf: &'a Ebpf, name: &str) -> Result<&'a P>
where
    &'a P: TryFrom<&'a Program, Error = ProgramError>,
{
    let found = ebpf.program(name).ok_or_else(|| missing("program", name))?;
    found.try_into().tried(|| format!("cannot use the program `{name}`"))
}

/// Returns a program of a loaded object, to load and attach it.
///
/// # Errors
/// The object has no program of that name and type.
pub fn program_mut<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let found = ebpf.program_mut(name).ok_or_else(|| missing("program", name))?;
    found.try_into().tried(|| format!("cannot use the program `{name}`"))
}

/// Takes a map out of a loaded object.
///
/// # Errors
/// The object has no map of that name and type, or the map was already taken.
pub fn take_map<M: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<M> {
    let found = ebpf.take_map(name).ok_or_else(|| missing("map", name))?;
    found.try_into().tried(|| format!("cannot use the map `{name}`"))
}

fn missing(kind: &str, name: &str) -> Error {
    Error::failed(format!("the BPF object has no {kind} `{name}`"))
}
