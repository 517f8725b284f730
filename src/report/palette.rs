//! The colours of the categories: CSS classes, the stylesheet, and the stacking order.
//!
//! A category has the same colour in every chart, table and export. The colours are data: `patterns/palette.json`. Charts
//! and tables use only class names; [`css`] defines each colour once for the light and once for the dark theme.
//!
//! The family of a category decides its hue: compute cool, small math warm, movement violet, communication red, unknown grey. Idle time is
//! hatched grey: its fill is the hatching, its ink text on the page. Stages and parts of the time of a rank are in the same list.

use crate::json::{self, from_json};
use crate::ordering;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const DATA: &str = include_str!(concat!(env!("OUT_DIR"), "/palette.json"));

#[derive(Debug, Default)]
struct Palette {
    background: Background,
    categories: Vec<Category>,
    spares: Vec<Spare>,
    aliases: BTreeMap<String, String>,
}
from_json!(Palette { background, categories, spares, aliases });

#[derive(Debug, Default)]
struct Background {
    light: String,
    dark: String,
}
from_json!(Background { light, dark });

#[derive(Debug)]
struct Category {
    category: String,
    /// What people read, if it is not the name.
    title: Option<String>,
    light: Colour,
    dark: Colour,
}
from_json!(Category { category, light, dark; title });

#[derive(Debug)]
struct Spare {
    light: Colour,
    dark: Colour,
}
from_json!(Spare { light, dark });

#[derive(Debug)]
struct Colour {
    fill: String,
    ink: String,
}
from_json!(Colour { fill, ink });

/// The CSS class of a category: `cat-gemm` for `gemm`.
///
/// Stages and parts of the time of a rank have colours of their own. Category names of gputrc2graph's rule files are aliases of similar
/// categories. Any other name gets one of a few spare
/// classes, chosen by a hash, so it is always the same. The class contains only `a-z`, `0-9`, `_` and `-`.
///
/// ```
/// use gpuprism::report::palette;
/// assert_eq!(palette::class("gemm"), "cat-gemm");
/// assert_eq!(palette::class("nccl_and_custom_ar"), "cat-communication");
/// assert_eq!(palette::class("CPU (non-GPU)"), "cat-cpu");
/// assert!(palette::class("\"><script>").starts_with("cat-spare-"));
/// ```
pub fn class(category: &str) -> String {
    match find(category) {
        Some(entry) => format!("cat-{}", slug(&entry.category)),
        None => format!("cat-spare-{}", spare_number(category)),
    }
}

/// What people read for a category: its name, unless the palette has a title. JSON and CSV have the name.
///
/// ```
/// use gpuprism::report::palette;
/// assert_eq!((palette::title("gemm"), palette::title("CPU (non-GPU)")), ("gemm", "GPU idle"));
/// ```
pub fn title(category: &str) -> &str {
    let entry = palette().categories.iter().find(|entry| entry.category == category);
    entry.and_then(|entry| entry.title.as_deref()).unwrap_or(category)
}

/// The distinct names in stacking order: the order of the palette, with names that it does not contain before `misc`, and
/// CPU time last.
///
/// ```
/// use gpuprism::report::palette;
/// assert_eq!(palette::order(["CPU (non-GPU)", "misc", "gemm", "my_rule", "gemm"]), ["gemm", "my_rule", "misc", "CPU (non-GPU)"]);
/// ```
pub fn order<'a>(categories: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = categories.into_iter().collect();
    ordering::sort_by(&mut names, |a, b| compare(a, b));
    names.dedup();
    names
}

/// The stylesheet of the palette: custom properties for all colours, and the rules of the classes.
///
/// A class sets `--fill` and `--ink`, which shapes (`rect`), their labels (`text`) and `.swatch` elements use. The dark
/// theme applies if the system prefers it or the root element has `data-theme=dark`; `data-theme=light` overrides the
/// system.
pub fn css() -> String {
    let (mut light, mut dark, mut classes) = (String::new(), String::new(), String::new());
    for (name, light_colour, dark_colour) in entries() {
        light += &properties(&name, light_colour);
        dark += &properties(&name, dark_colour);
        classes += &format!(".cat-{name}{{--fill:var(--cat-{name});--ink:var(--cat-{name}-ink)}}\n");
    }
    let background = &palette().background;
    light += &format!("--surface:{};", background.light);
    dark += &format!("--surface:{};", background.dark);
    format!(
        ":root{{color-scheme:light;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n\
         :root[data-theme=dark]{{color-scheme:dark;{dark}}}\n\
         {classes}\
         rect[class*=cat-]{{fill:var(--fill)}}\n\
         text[class*=cat-]{{fill:var(--ink)}}\n\
         .swatch{{background:var(--fill)}}\n\
         rect.cat-cpu{{fill-opacity:.1;stroke:var(--fill);stroke-opacity:.8}}\n\
         path.cat-cpu{{fill:none;stroke:var(--fill);stroke-opacity:.55}}\n\
         text.cat-cpu{{paint-order:stroke;stroke:var(--surface);stroke-width:4px;stroke-linejoin:round}}\n\
         .swatch.cat-cpu{{background:repeating-linear-gradient(135deg,var(--fill) 0 1px,transparent 1px 4px);box-shadow:inset 0 0 0 1px var(--fill)}}\n"
    )
}

fn properties(name: &str, colour: &Colour) -> String {
    format!("--cat-{name}:{};--cat-{name}-ink:{};", colour.fill, colour.ink)
}

/// The name of each class with its colours in the light and the dark theme.
fn entries() -> impl Iterator<Item = (String, &'static Colour, &'static Colour)> {
    let palette = palette();
    let categories = palette.categories.iter().map(|entry| (slug(&entry.category), &entry.light, &entry.dark));
    let spares = (1..).zip(&palette.spares);
    let spares = spares.map(|(number, spare)| (format!("spare-{number}"), &spare.light, &spare.dark));
    categories.chain(spares)
}

fn palette() -> &'static Palette {
    static PALETTE: OnceLock<Palette> = OnceLock::new();
    // A test checks that the embedded text parses.
    PALETTE.get_or_init(|| json::read(DATA).unwrap_or_default())
}

/// The entry of a category or of the category that it is an alias of.
fn find(category: &str) -> Option<&'static Category> {
    let palette = palette();
    let name = palette.aliases.get(category).map_or(category, String::as_str);
    palette.categories.iter().find(|entry| entry.category == name)
}

/// `cpu` for `CPU (non-GPU)`; all other names in the palette are single words.
fn slug(category: &str) -> String {
    category.split(' ').next().unwrap_or_default().to_ascii_lowercase()
}

/// The number of the spare colour, from 1: that of the alias `spare N`, else from a stable hash of the name (FNV-1a).
fn spare_number(category: &str) -> usize {
    let palette = palette();
    let named = palette.aliases.get(category).and_then(|alias| alias.strip_prefix("spare "));
    if let Some(number) = named.and_then(|number| number.parse().ok()) {
        return number;
    }
    let hash = category
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let count = u64::try_from(palette.spares.len().max(1)).unwrap_or(1);
    usize::try_from(hash % count).map_or(1, |index| index + 1)
}

fn compare(a: &str, b: &str) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
}

/// Odd numbers for the categories of the palette; the even number before `misc` for all others.
fn rank(category: &str) -> usize {
    let index_of = |name: &str| palette().categories.iter().position(|entry| entry.category == name);
    let index = find(category).and_then(|entry| index_of(&entry.category));
    index.map_or_else(|| 2 * index_of("misc").unwrap_or_default(), |index| 2 * index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Linear light of a `#rrggbb` colour (IEC 61966-2-1).
    fn linear(hex: &str) -> Rgb {
        let channel = |start: usize| {
            let value = f64::from(u8::from_str_radix(&hex[start..start + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        [channel(1), channel(3), channel(5)]
    }

    /// WCAG 2.2 contrast ratio.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |hex: &str| {
            let [r, g, b] = linear(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    const NORMAL_VISION: [Rgb; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    /// Machado, Oliveira and Fernandes 2009, severity 1.0, for linear RGB.
    const PROTANOPIA: [Rgb; 3] =
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]];
    const DEUTERANOPIA: [Rgb; 3] =
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]];

    /// The colour under the given vision in OKLab, where distances match perceived differences.
    fn oklab(hex: &str, vision: &[Rgb; 3]) -> Rgb {
        let light = linear(hex);
        let [r, g, b] = vision.map(|row| row.iter().zip(light).map(|(m, c)| m * c).sum::<f64>().clamp(0.0, 1.0));
        let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
        let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
        let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ]
    }

    fn distance(a: &str, b: &str, vision: &[Rgb; 3]) -> f64 {
        let (a, b) = (oklab(a, vision), oklab(b, vision));
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    fn schemes() -> [(&'static str, Vec<(String, &'static Colour)>); 2] {
        let background = &palette().background;
        [
            (&background.light, entries().map(|(name, light, _)| (name, light)).collect()),
            (&background.dark, entries().map(|(name, _, dark)| (name, dark)).collect()),
        ]
        .map(|(background, colours)| (background.as_str(), colours))
    }

    #[test]
    fn the_embedded_palette_parses_and_covers_the_default_categories() {
        let parsed: Palette = json::read(DATA).unwrap();
        assert_eq!(parsed.categories.len(), 27, "with stages and parts of ranks");
        assert_eq!(parsed.categories.last().unwrap().category, "CPU (non-GPU)");
    }

    #[test]
    fn shapes_contrast_with_the_background_and_labels_with_their_shape() {
        for (background, colours) in schemes() {
            for (name, colour) in colours {
                let mark = contrast(&colour.fill, background);
                assert!(mark >= 3.0, "{name} on {background}: {mark:.2}");
                // CPU time is hatched, so its label is on the background of the page.
                let under = if name == "cpu" { background } else { &colour.fill };
                let label = contrast(&colour.ink, under);
                assert!(label >= 4.5, "label on {name}, {background}: {label:.2}");
            }
        }
    }

    /// The colour in CIE L*a*b* for the white point D65, from linear light by the matrix of sRGB.
    fn cielab(hex: &str) -> Rgb {
        const TO_XYZ: [Rgb; 3] =
            [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
        const WHITE: Rgb = [0.95047, 1.0, 1.08883];
        let light = linear(hex);
        let compress = |value: f64| {
            let (limit, slope) = (216.0 / 24389.0, 24389.0 / 27.0);
            if value > limit { value.cbrt() } else { (slope * value + 16.0) / 116.0 }
        };
        let part = |index: usize| {
            let sum = TO_XYZ[index].iter().zip(light).map(|(weight, channel)| weight * channel).sum::<f64>();
            compress(sum / WHITE[index])
        };
        let (x, y, z) = (part(0), part(1), part(2));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The colour difference of CIE 1976 (CIE76).
    fn delta_e(a: &str, b: &str) -> f64 {
        let (a, b) = (cielab(a), cielab(b));
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    /// The published L*a*b* values of the primaries of sRGB, rounded.
    #[test]
    fn cielab_has_the_known_values_of_the_primaries() {
        for (hex, want) in [
            ("#ffffff", [100.0, 0.0, 0.0]),
            ("#ff0000", [53.2, 80.1, 67.2]),
            ("#00ff00", [87.7, -86.2, 83.2]),
            ("#0000ff", [32.3, 79.2, -107.9]),
            ("#000000", [0.0, 0.0, 0.0]),
        ] {
            let found = cielab(hex);
            assert!(found.iter().zip(want).all(|(found, want)| (found - want).abs() < 0.1), "{hex}: {found:?}");
        }
        assert!((delta_e("#ffffff", "#000000") - 100.0).abs() < 0.01);
    }

    /// Any two can stand beside each other: a trace may have any categories, and a bar leaves out the others. The colour of
    /// idle time, which is hatched, is no exception.
    #[test]
    fn any_two_colours_differ_by_delta_e_20_or_more() {
        for (background, colours) in schemes() {
            for (index, (a, first)) in colours.iter().enumerate() {
                for (b, second) in &colours[index + 1..] {
                    let far = delta_e(&first.fill, &second.fill);
                    assert!(far >= 20.0, "{a} and {b} on {background}: {far:.1}");
                }
            }
        }
    }

    /// The light and the dark colour of a property, `light-dark(#ffffff, #14161a)`.
    fn light_and_dark<'a>(css: &'a str, property: &str) -> [&'a str; 2] {
        let (_, rest) = css.split_once(&format!("{property}: light-dark(")).unwrap();
        let (pair, _) = rest.split_once(')').unwrap();
        let (light, dark) = pair.split_once(", ").unwrap();
        [light, dark]
    }

    /// The bars of one lane of the timeline: calls, and code.
    #[test]
    fn bars_of_the_host_differ_from_each_other_and_from_the_background() {
        let css = include_str!("../../www/timeline.css");
        let background = light_and_dark(include_str!("../../www/style.css"), "--surface");
        for lane in [&["launch", "wait", "call"][..], &["function", "op"], &["range"], &["layer"], &["counter"]] {
            for (index, name) in lane.iter().enumerate() {
                let fill = light_and_dark(css, &format!("--tl-{name}"));
                let rule = css.split_once(&format!(".tl-{name} {{")).unwrap().1;
                let ink = light_and_dark(rule, "--ink");
                for theme in [0, 1] {
                    let far = delta_e(fill[theme], background[theme]);
                    assert!(far >= 10.0, "{name} on {}: {far:.1}", background[theme]);
                    assert!(contrast(fill[theme], ink[theme]) >= 4.5, "{name} on {}", background[theme]);
                    for other in &lane[index + 1..] {
                        let far = delta_e(fill[theme], light_and_dark(css, &format!("--tl-{other}"))[theme]);
                        assert!(far >= 20.0, "{name} and {other} on {}: {far:.1}", background[theme]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_colour_keeps_its_hue_between_the_light_and_the_dark_theme() {
        for (name, light, dark) in entries() {
            let hue = |hex: &str| {
                let [_, a, b] = cielab(hex);
                b.atan2(a).to_degrees()
            };
            let turn = (hue(&light.fill) - hue(&dark.fill) + 540.0).rem_euclid(360.0) - 180.0;
            assert!(turn.abs() <= 15.0, "{name}: {turn:.1} degrees");
        }
    }

    /// The categories of each family; idle time is hatched.
    const FAMILIES: [(&str, &[&str]); 5] = [
        ("communication", &["communication"]),
        ("compute", &["attention", "moe_gemm", "gemm", "moe", "conv"]),
        ("small math", &["norm", "rope", "softmax", "sampling", "quantize", "activation", "reduce", "elementwise"]),
        ("movement", &["kv_cache", "memory"]),
        ("unknown", &["misc"]),
    ];

    fn family(name: &str) -> Option<&'static str> {
        FAMILIES.iter().find(|(_, names)| names.contains(&name)).map(|(family, _)| *family)
    }

    /// Neighbours in stacking order differ clearly under every vision, and any two families differ a little. Within a family a
    /// colour-blind reader needs order and labels.
    #[test]
    fn categories_are_distinguishable_with_colour_blindness() {
        for (background, colours) in schemes() {
            let named: Vec<_> = colours.iter().filter(|(name, _)| family(name).is_some()).collect();
            assert_eq!(named.len(), 17);
            for vision in [&NORMAL_VISION, &PROTANOPIA, &DEUTERANOPIA] {
                for pair in named.windows(2) {
                    let far = distance(&pair[0].1.fill, &pair[1].1.fill, vision);
                    assert!(far >= 0.08, "neighbours {} and {} on {background}: {far:.3}", pair[0].0, pair[1].0);
                }
            }
            for (a, first) in &named {
                for (b, second) in named.iter().filter(|(b, _)| family(a) != family(b)) {
                    let far = [&PROTANOPIA, &DEUTERANOPIA].map(|vision| distance(&first.fill, &second.fill, vision));
                    assert!(far.iter().all(|far| *far >= 0.03), "families of {a} and {b} on {background}: {far:.3?}");
                }
            }
        }
    }

    /// Any two stages, and any two parts of the bar of a rank.
    #[test]
    fn stages_and_parts_of_ranks_are_distinguishable_with_colour_blindness() {
        const STAGES: &[&str] = &["extend/prefill", "decode", "mixed", "draft", "verify"];
        const PARTS: &[&str] =
            &["compute", "compute during communication", "copies and graphs", "transfer", "waiting for a rank"];
        for names in [STAGES, PARTS] {
            for (background, colours) in schemes() {
                let fill = |name: &str| {
                    let class = class(name);
                    let slug = class.strip_prefix("cat-").unwrap();
                    &colours.iter().find(|(found, _)| found == slug).unwrap().1.fill
                };
                for (index, a) in names.iter().enumerate() {
                    for b in &names[index + 1..] {
                        for vision in [&NORMAL_VISION, &PROTANOPIA, &DEUTERANOPIA] {
                            let far = distance(fill(a), fill(b), vision);
                            assert!(far >= 0.08, "{a} and {b} on {background}: {far:.3}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_stage_has_the_colour_of_no_category() {
        let categories = || FAMILIES.iter().flat_map(|(_, names)| names.iter());
        for stage in
            ["extend/prefill", "prefill", "decode", "mixed", "draft", "verify", "compute", "waiting for a rank"]
        {
            let own = class(stage);
            let is_shared = categories().any(|category| class(category) == own);
            assert!(!is_shared && !own.contains("spare"), "{stage}: {own}");
        }
    }

    #[test]
    fn every_alias_resolves_to_a_colour() {
        let palette = palette();
        for (name, target) in &palette.aliases {
            let number = target.strip_prefix("spare ").and_then(|number| number.parse::<usize>().ok());
            let spare = number.is_some_and(|number| (1..=palette.spares.len()).contains(&number));
            assert!(spare || find(name).is_some(), "{name} -> {target}");
        }
    }

    #[test]
    fn the_categories_of_gputrc2graph_have_distinct_colours() {
        let names = [
            "activation",
            "attn",
            "block_fp8_gemm",
            "elementwise",
            "gemm",
            "misc",
            "moe",
            "moe_gemm",
            "nccl_and_custom_ar",
            "non-gpu-H_D_memops",
            "norm",
            "prepare_next",
            "quantize",
            "reduce",
            "rope",
            "softmax",
            "topk",
            "triton_kernel",
            "CPU (non-GPU)",
        ];
        let classes: std::collections::BTreeSet<String> = names.iter().map(|name| class(name)).collect();
        assert_eq!(classes.len(), names.len(), "{classes:?}");
    }

    #[test]
    fn hostile_category_names_get_safe_classes() {
        let css = css();
        for name in ["", "}</style><script>", "a b", "\0", "ñandú", "cat-gemm", &"x".repeat(5000)] {
            let class = class(name);
            assert!(class.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{class}");
            assert!(css.contains(&format!(".{class}{{")), "{class}");
        }
    }
}
