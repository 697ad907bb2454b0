//! Cards that many people have, by name: how they can be cut into hardware slices.

use plimsoll_core::device::{Geometry, Profile, Span};
use plimsoll_core::units::{Bytes, Cores};

/// The names of the presets.
pub(crate) const NAMES: [&str; 1] = ["a100-40gb"];

/// The geometry of a card of this name.
pub(crate) fn geometry(name: &str) -> Option<Geometry> {
    (name == NAMES[0]).then(a100_40gb)
}

/// The name of this geometry.
pub(crate) fn name_of(geometry: &Geometry) -> Option<&'static str> {
    (*geometry == a100_40gb()).then_some(NAMES[0])
}

/// NVIDIA's table for the A100 with 40 GB: eight memory slices and seven compute slices.
fn a100_40gb() -> Geometry {
    let profile = |name: &str, mib, cores, size, starts: &[u8]| Profile {
        name: name.into(),
        memory: Bytes::mib(mib),
        cores: Cores(cores),
        placements: starts.iter().map(|start| Span { start: *start, size }).collect(),
    };
    Geometry {
        profiles: vec![
            profile("1g.5gb", 4864, 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
            profile("1g.10gb", 9856, 1, 2, &[0, 2, 4, 6]),
            profile("2g.10gb", 9856, 2, 2, &[0, 2, 4]),
            profile("3g.20gb", 19_968, 3, 4, &[0, 4]),
            profile("4g.20gb", 19_968, 4, 4, &[0]),
            profile("7g.40gb", 40_192, 7, 8, &[0]),
        ],
    }
}
