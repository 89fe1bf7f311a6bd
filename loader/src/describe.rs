//! What an algorithm says of itself: read from the BTF of its object, or of the programs the kernel made of it.

use libbpf_rs::btf::types::{Composite, DataSec, DeclTag, Enum, Int, IntEncoding, Ptr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize, TypeId};
use serde::Serialize;
use std::collections::HashMap;

/// Everything known of an algorithm without running it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Description {
    /// What it is, in a sentence; `None` for an object that does not describe itself.
    pub summary: Option<String>,
    /// The publication it implements.
    pub paper: Option<String>,
    /// What can be set, in the order of the source.
    pub tunables: Vec<Tunable>,
    /// Fields of the per-flow state.
    pub state: Vec<StateField>,
}

impl Description {
    /// What it says that cannot be: a range beyond the variable's, a profile's value beyond the range.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        self.tunables.iter().find_map(Tunable::contradiction)
    }
}

/// Where a tunable's value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// `.data`: can be set while the algorithm runs.
    Data,
    /// `.rodata`: fixed once it is loaded.
    Rodata,
}

impl Section {
    /// Name of the ELF section.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => ".data",
            Self::Rodata => ".rodata",
        }
    }
}

/// A value that can be set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tunable {
    /// Name of the variable.
    pub name: String,
    /// Unit, "" for a plain number.
    pub unit: String,
    /// Least value.
    pub min: i128,
    /// Greatest value.
    pub max: i128,
    /// Value in the `default` profile, where the object names one.
    pub default: Option<i128>,
    /// Value in the `paper` profile, where the object names one.
    pub paper: Option<i128>,
    /// Names of the values 0, 1, ..., where it is a choice.
    pub choices: Vec<String>,
    /// What it does.
    pub help: String,
    /// Whether it can be set while running.
    pub section: Section,
    /// Where it stands in its section.
    #[serde(skip)]
    pub place: Place,
}

impl Tunable {
    fn contradiction(&self) -> Option<String> {
        let Self { name, min, max, .. } = self;
        let (lowest, highest) = self.place.range();
        if min > max || *min < lowest || *max > highest {
            return Some(format!("tunable {name} has the range {min}..{max}; its variable holds {lowest}..{highest}"));
        }
        let profiles = [("default", self.default), ("paper", self.paper)];
        let (profile, value) =
            profiles.into_iter().find_map(|(p, v)| Some((p, v.filter(|v| !(min..=max).contains(&v))?)))?;
        Some(format!("tunable {name} has the {profile} value {value}, which is out of its own range {min}..{max}"))
    }
}

/// Bytes of a scalar within a section or a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: usize,
    /// 1, 2, 4 or 8.
    pub size: usize,
    /// Two's complement.
    pub signed: bool,
}

impl Place {
    /// Reads the scalar; `None` if the bytes end before it.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Option<i128> {
        let mut word = [0u8; 8];
        word.get_mut(..self.size)?.copy_from_slice(bytes.get(self.offset..self.offset + self.size)?);
        let raw = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.size as u32;
        Some(if self.signed { i128::from((raw as i64) << unused >> unused) } else { i128::from(raw) })
    }

    /// Writes the scalar; `None` if the bytes end before it.
    pub fn write(self, bytes: &mut [u8], value: i128) -> Option<()> {
        let word = (value as u64).to_le_bytes();
        bytes.get_mut(self.offset..self.offset + self.size)?.copy_from_slice(word.get(..self.size)?);
        Some(())
    }

    fn range(self) -> (i128, i128) {
        let bits = 8 * self.size as u32;
        if self.signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }
}

/// A scalar of the per-flow state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateField {
    /// Name; members of members are written `outer.inner`.
    pub name: String,
    /// Unit, "" for a plain number.
    pub unit: String,
    /// What it holds.
    pub help: String,
    /// Where it stands in the state.
    #[serde(skip)]
    pub place: Place,
}

/// Reads the tags of an object's BTF.
#[must_use]
pub fn describe(btf: &Btf<'_>) -> Description {
    let tags = Tags::collect(btf);
    let mut description = Description::default();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let place = match section.name().and_then(|n| n.to_str()) {
            Some(".data") => Section::Data,
            Some(".rodata") => Section::Rodata,
            Some(".struct_ops" | ".struct_ops.link") => {
                for var in section.iter() {
                    if let Some(tag) = tags.of(var.ty, "algorithm") {
                        description.summary = tag.get("help").cloned();
                        description.paper = tag.get("paper").cloned();
                    }
                }
                continue;
            }
            _ => continue,
        };
        for var in section.iter() {
            let Some(declared) = btf.type_by_id::<Var<'_>>(var.ty) else { continue };
            if tags.of(var.ty, "state").is_some() {
                description.state = state_fields(btf, &tags, &declared);
                continue;
            }
            let offset = var.offset as usize;
            description.tunables.extend(tunable(&tags, var.ty, &declared, place, offset));
        }
    }
    let tagged = description.tunables.iter().any(|t| t.default.is_some());
    if tagged {
        // An object that names its tunables has other globals that are none.
        description.tunables.retain(|t| t.default.is_some());
    }
    description
}

fn tunable(tags: &Tags, id: TypeId, var: &Var<'_>, section: Section, offset: usize) -> Option<Tunable> {
    let name = var.name()?.to_str()?.to_owned();
    let place = scalar(var.next_type()?.skip_mods_and_typedefs(), offset)?;
    let (lowest, highest) = place.range();
    let tag = tags.of(id, "tunable").or_else(|| tags.of(id, "choice"));
    let empty = HashMap::new();
    let tag = tag.unwrap_or(&empty);
    let number = |key: &str| tag.get(key).and_then(|text| parse_number(text));
    let choices: Vec<String> = tag.get("names").map_or_else(Vec::new, |n| n.split(',').map(str::to_owned).collect());
    let highest = if choices.is_empty() { highest } else { choices.len() as i128 - 1 };
    let text = |key: &str| tag.get(key).cloned().unwrap_or_default();
    Some(Tunable {
        name,
        unit: text("unit"),
        min: number("min").unwrap_or(lowest),
        max: number("max").unwrap_or(highest),
        default: number("default"),
        paper: number("paper"),
        choices,
        help: text("help"),
        section,
        place,
    })
}

fn state_fields(btf: &Btf<'_>, tags: &Tags, var: &Var<'_>) -> Vec<StateField> {
    let mut fields = Vec::new();
    let pointer = var.next_type().map(|t| t.skip_mods_and_typedefs()).and_then(|t| Ptr::try_from(t).ok());
    if let Some(target) = pointer.and_then(|p| p.next_type()).map(|t| t.skip_mods_and_typedefs())
        && let Ok(composite) = Composite::try_from(target)
    {
        walk_state(btf, tags, &composite, "", 0, &mut fields);
    }
    fields
}

fn walk_state(btf: &Btf<'_>, tags: &Tags, of: &Composite<'_>, prefix: &str, base: usize, fields: &mut Vec<StateField>) {
    for (index, member) in of.iter().enumerate() {
        let Some(ty) = btf.type_by_id::<BtfType<'_>>(member.ty).map(|t| t.skip_mods_and_typedefs()) else { continue };
        let name = member.name.and_then(|n| n.to_str()).unwrap_or_default();
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let libbpf_rs::btf::types::MemberAttr::Normal { offset } = member.attr else { continue };
        let offset = base + offset as usize / 8;
        if let Ok(inner) = Composite::try_from(ty) {
            walk_state(btf, tags, &inner, &name, offset, fields);
        } else if let Some(place) = scalar(ty, offset) {
            let tag = tags.of_member(of.type_id(), index as u32, "field");
            let text = |key: &str| tag.and_then(|t| t.get(key)).cloned().unwrap_or_default();
            fields.push(StateField { name, unit: text("unit"), help: text("help"), place });
        }
    }
}

/// Names of a struct's members.
#[must_use]
pub fn member_names(of: &Struct<'_>) -> Vec<String> {
    of.iter().filter_map(|m| m.name?.to_str().map(str::to_owned)).collect()
}

/// Offset, in bytes, of a struct's member.
#[must_use]
pub fn member_offset(of: &Struct<'_>, name: &str) -> Option<usize> {
    let member = of.iter().find(|m| m.name.and_then(|n| n.to_str()) == Some(name))?;
    match member.attr {
        libbpf_rs::btf::types::MemberAttr::Normal { offset } => Some(offset as usize / 8),
        libbpf_rs::btf::types::MemberAttr::BitField { .. } => None,
    }
}

fn scalar(ty: BtfType<'_>, offset: usize) -> Option<Place> {
    match ty.kind() {
        BtfKind::Int => {
            let int = Int::try_from(ty).ok()?;
            let size = usize::from(int.bits) / 8;
            let signed = matches!(int.encoding, IntEncoding::Signed);
            matches!(size, 1 | 2 | 4 | 8).then_some(Place { offset, size, signed })
        }
        BtfKind::Enum => {
            let e = Enum::try_from(ty).ok()?;
            Some(Place { offset, size: e.size(), signed: e.is_signed() })
        }
        _ => None,
    }
}

fn parse_number(text: &str) -> Option<i128> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

type Fields = HashMap<String, String>;

/// All `hotcc:` tags, by the type (and member) they stand on and by kind.
struct Tags(HashMap<(TypeId, Option<u32>, String), Fields>);

impl Tags {
    fn collect(btf: &Btf<'_>) -> Self {
        let mut tags = HashMap::new();
        for tag in btf.type_by_kind::<DeclTag<'_>>() {
            let Some(text) = tag.name().and_then(|n| n.to_str()).and_then(|n| n.strip_prefix("hotcc:")) else {
                continue;
            };
            let Some(target) = tag.next_type() else { continue };
            let (kind, fields) = parse_tag(text);
            tags.insert((target.type_id(), tag.component_index(), kind), fields);
        }
        Self(tags)
    }

    fn of(&self, id: TypeId, kind: &str) -> Option<&Fields> {
        self.0.get(&(id, None, kind.to_owned()))
    }

    fn of_member(&self, id: TypeId, index: u32, kind: &str) -> Option<&Fields> {
        self.0.get(&(id, Some(index), kind.to_owned()))
    }
}

/// "KIND|key=value|...|help=anything": `help` comes last and may hold bars.
fn parse_tag(text: &str) -> (String, Fields) {
    let (text, help) = match text.split_once("|help=") {
        Some((before, help)) => (before, Some(help.to_owned())),
        None => (text, None),
    };
    let mut parts = text.split('|');
    let kind = parts.next().unwrap_or_default().to_owned();
    let mut fields: Fields =
        parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    fields.extend(help.map(|h| ("help".to_owned(), h)));
    (kind, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_parse() {
        let (kind, fields) = parse_tag("tunable|unit=us|min=0|help=a | b=c");
        assert_eq!(kind, "tunable");
        assert_eq!(fields["unit"], "us");
        assert_eq!(fields["help"], "a | b=c");
    }

    #[test]
    fn scalars_keep_their_sign_and_neighbours() {
        let place = Place { offset: 1, size: 2, signed: true };
        let mut bytes = [9u8; 4];
        place.write(&mut bytes, -2).unwrap();
        assert_eq!(bytes, [9, 0xfe, 0xff, 9]);
        assert_eq!(place.read(&bytes), Some(-2));
        assert_eq!(Place { signed: false, ..place }.read(&bytes), Some(0xfffe));
        assert_eq!(Place { offset: 3, ..place }.read(&bytes), None);
    }
}
