//! An algorithm's description of itself, read from the BTF of its object or of its programs in the kernel.

use super::signals::{Signal, signals};
use crate::tunables::{Place, Section, Tunable};
use libbpf_rs::btf::types::{Array, Composite, DataSec, DeclTag, Enum, Int, IntEncoding, Ptr, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize, TypeId};
use serde::Serialize;
use std::collections::HashMap;

/// Everything that is known about an algorithm without running it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Description {
    /// What it does, in a sentence; `None` if the object does not describe itself.
    pub summary: Option<String>,
    /// The publication that it implements.
    pub paper: Option<String>,
    /// The signals it uses.
    pub signals: Vec<Signal>,
    /// Its tunables, in the order of the source.
    pub tunables: Vec<Tunable>,
    /// Fields of the per-flow state.
    pub state: Vec<StateField>,
}

impl Description {
    /// Returns the first contradiction: a tunable's range that exceeds its variable's, or a profile's value outside the
    /// range.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        self.tunables.iter().find_map(Tunable::contradiction)
    }

    /// Returns what `hotcc flows` computes from the per-flow state and shows beside it.
    #[must_use]
    pub fn computed(&self) -> &'static [Computed] {
        let forecasts = self.state.iter().any(|field| matches!(field.export, Some(Export::Forecast(_))));
        if forecasts { std::slice::from_ref(&FORECAST) } else { &[] }
    }
}

/// A value that is computed from the per-flow state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Computed {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// What it holds.
    pub help: &'static str,
}

/// The rate that the field tagged with `EXPORT_FORECAST` foretells.
pub const FORECAST: Computed = Computed {
    name: "forecast",
    unit: "bit/s",
    help: "the rate that the level and the newest reading forecast; absent while there is no such reading",
};

/// A scalar of the per-flow state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateField {
    /// Name; nested members are written `outer.inner`, and elements of an array `name[0]`.
    pub name: String,
    /// Unit; empty for a plain number.
    pub unit: String,
    /// What it holds.
    pub help: String,
    /// Its place in the state.
    #[serde(skip)]
    pub place: Place,
    /// How the exporter adds it up; `None` if it does not.
    #[serde(skip)]
    pub export: Option<Export>,
}

/// How the exporter adds up a field of the per-flow state over the open connections.
#[derive(Clone, Debug, PartialEq)]
pub enum Export {
    /// The sum, divided by this.
    Sum(f64),
    /// The number of connections of each value from 0 on. These are the values' names.
    Counts(Vec<String>),
    /// The sum of the rates that it forecasts with the field of this name (`EXPORT_FORECAST` of hotcc/tags.h).
    Forecast(String),
}

impl Export {
    fn read(tag: &Fields, unit: &str, name_of: impl Fn(&str) -> String) -> Option<Self> {
        match (tag.get("names"), tag.get("reading")) {
            (Some(names), _) => Some(Self::Counts(names.split(',').map(str::to_owned).collect())),
            (_, Some(reading)) => Some(Self::Forecast(name_of(reading))),
            _ => Some(Self::Sum(unit.strip_prefix("1/")?.parse().ok()?)),
        }
    }
}

/// Reads the tags of an object's BTF. If the object has several congestion controls, `table` is the one whose summary
/// and paper are read.
#[must_use]
pub fn describe(btf: &Btf<'_>, table: Option<&str>) -> Description {
    let tags = Tags::collect(btf);
    let mut description = Description { signals: signals(btf), ..Description::default() };
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let place = match section.name().and_then(|n| n.to_str()) {
            Some(".data") => Section::Data,
            Some(".rodata") => Section::Rodata,
            Some(".struct_ops" | ".struct_ops.link") => {
                let name = |id| btf.type_by_id::<Var<'_>>(id)?.name()?.to_str();
                for var in section.iter().filter(|var| table.is_none_or(|table| name(var.ty) == Some(table))) {
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
        // In an object that tags its tunables, the other global variables are not tunables.
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
        former_name: tags.of(id, "was").and_then(|tag| tag.get("name").cloned()),
        unit: text("unit"),
        min: number("min").unwrap_or(lowest),
        max: number("max").unwrap_or(highest),
        default: number("default"),
        paper: number("paper"),
        choices,
        help: text("help"),
        warning: tags.of(id, "warning").and_then(|t| Some((t.get("name")?.clone(), t.get("help")?.clone()))),
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
        let name_of = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let name = name_of(member.name.and_then(|n| n.to_str()).unwrap_or_default());
        let libbpf_rs::btf::types::MemberAttr::Normal { offset } = member.attr else { continue };
        let offset = base + offset as usize / 8;
        if let Ok(inner) = Composite::try_from(ty) {
            walk_state(btf, tags, &inner, &name, offset, fields);
            continue;
        }
        let tag_of = |kind: &str| tags.of_member(of.type_id(), index as u32, kind);
        let text = |key: &str| tag_of("field").and_then(|tag| tag.get(key)).cloned().unwrap_or_default();
        // an array without a description is another algorithm's state
        if matches!(ty.kind(), BtfKind::Array) && tag_of("field").is_none() {
            continue;
        }
        for (name, place) in places(ty, name, offset) {
            let (unit, help) = (text("unit"), text("help"));
            let export = tag_of("export").filter(|_| !place.signed).and_then(|tag| Export::read(tag, &unit, name_of));
            fields.push(StateField { name, unit, help, place, export });
        }
    }
}

/// Returns the names and places of the scalars of a member that is a scalar or an array of scalars.
fn places(ty: BtfType<'_>, name: String, offset: usize) -> Vec<(String, Place)> {
    let Ok(array) = Array::try_from(ty) else {
        return scalar(ty, offset).map(|place| (name, place)).into_iter().collect();
    };
    let Some(first) = scalar(array.contained_type().skip_mods_and_typedefs(), offset) else { return Vec::new() };
    let element = |k: usize| (format!("{name}[{k}]"), Place { offset: offset + k * first.size, ..first });
    (0..array.capacity()).map(element).collect()
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

/// All `hotcc:` tags, by the type (and member) that they tag and by kind.
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

/// Parses `KIND|key=value|...|help=anything`; `help` comes last and may contain `|`.
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
}
