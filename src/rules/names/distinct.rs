//! Short names for a set of kernels, such that different kernels have different short names.
//!
//! Long names are abbreviated to the tokens that matter: tile sizes, and the tokens that vary among the long names of the
//! set that begin alike. If short names are still equal, tokens of the full signature are added, a few rounds of partition
//! refinement: data types first, then other template arguments, numbers and namespaces. Names that no token can
//! distinguish are numbered. Cost: linear in the length of the names; the number of tokens per round is bounded.

use super::{MAX_SHORT_CHARS, WORDS, is_cpp, is_identifier, shorten_middle, unabridged};
use crate::ordering;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

/// Maximum number of tokens of a name. The rest of a longer name counts as one token.
const MAX_TOKENS: usize = 128;
/// Maximum number of tokens of a signature that are candidates to distinguish it.
const MAX_CANDIDATES: usize = 256;
/// Each round adds at most one token to a name.
const MAX_ROUNDS: usize = 4;
/// Maximum number of tokens that are hashed per round. Equal names beyond it are numbered.
const MAX_TOKENS_PER_ROUND: usize = 1_000_000;
/// Longer tokens are not added.
const MAX_TOKEN_CHARS: usize = 32;
/// The minimum share of the room that remains for a name if tokens are added: a third.
const MIN_NAME_PART: usize = 3;
/// Names are not abbreviated to fewer characters.
const MIN_CHARS: usize = 16;
/// Maximum number of tile sizes that are kept in any case.
const MAX_TILES: usize = 2;
/// Only parts of a name longer than this are split at capital letters.
const MAX_WORD_BYTES: usize = 16;

type Counts<K> = HashMap<K, (usize, u32), RandomState>;

/// The short names of these demangled names, in the same order. Equal names get a number.
///
/// ```
/// use gpuprism::rules::names::distinct;
/// let names = ["void copy_kernel<float, 4>(float*)", "void copy_kernel<half, 4>(half*)", "gemm"];
/// assert_eq!(distinct(&names), ["copy_kernel<float>", "copy_kernel<half>", "gemm"]);
/// ```
pub fn distinct<S: AsRef<str>>(demangled: &[S]) -> Vec<String> {
    distinct_within(demangled, MAX_SHORT_CHARS)
}

/// [`distinct`] for a narrow column: names over `max_chars` characters, at least 16, are abbreviated. Only names that differ nowhere but in
/// the middle of what they keep, and the numbers of equal names, need more.
///
/// ```
/// use gpuprism::rules::names::distinct_within;
/// let name = |functor: &str| format!("void at::native::vectorized_elementwise_kernel<4, {functor}>(int)");
/// let names = [name("at::native::FillFunctor<int>"), name("at::native::AbsFunctor<int>")];
/// assert_eq!(distinct_within(&names, 24), ["vectorized…<FillFunctor>", "vectorized…<AbsFunctor>"]);
/// ```
pub fn distinct_within<S: AsRef<str>>(demangled: &[S], max_chars: usize) -> Vec<String> {
    let room = max_chars.clamp(MIN_CHARS, MAX_SHORT_CHARS);
    let mut names: Vec<Name> = demangled.iter().map(|name| Name::new(name.as_ref(), room)).collect();
    mark_varying(&mut names);
    let mut shorts: Vec<String> = names.iter().map(Name::short).collect();
    for _ in 0..MAX_ROUNDS {
        let (mut tokens_left, mut has_changed) = (MAX_TOKENS_PER_ROUND, false);
        let groups = equal(&shorts);
        if groups.is_empty() {
            break;
        }
        for group in groups {
            for index in add_tokens(&mut names, &group, &mut tokens_left) {
                if let (Some(short), Some(name)) = (shorts.get_mut(index), names.get(index)) {
                    *short = name.short();
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            break;
        }
    }
    fit(&mut shorts, room);
    number(&mut shorts, &names);
    shorts
}

/// Shortens the names that their added tokens made longer than the room, unless that makes them equal to another one.
fn fit(shorts: &mut [String], room: usize) {
    let mut used: HashSet<String> = shorts.iter().cloned().collect();
    for short in shorts.iter_mut().filter(|short| short.chars().count() > room) {
        let shorter = shorten_middle(short, room);
        if used.insert(shorter.clone()) {
            *short = shorter;
        }
    }
}

/// The indices of equal texts, smallest groups first.
fn equal(shorts: &[String]) -> Vec<Vec<usize>> {
    let mut groups: HashMap<&str, Vec<usize>, RandomState> = HashMap::default();
    for (index, short) in shorts.iter().enumerate() {
        groups.entry(short).or_default().push(index);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().filter(|group| group.len() > 1).collect();
    ordering::sort_by(&mut groups, |a, b| (a.len(), a).cmp(&(b.len(), b)));
    groups
}

/// Appends ` (2)`, ` (3)`, ... to equal names, in the order of the full names.
fn number(shorts: &mut [String], names: &[Name]) {
    let groups = equal(shorts);
    if groups.is_empty() {
        return;
    }
    let mut used: HashSet<String> = shorts.iter().cloned().collect();
    for mut group in groups {
        ordering::sort_by_key(&mut group, |index| names.get(*index).map(|name| name.full));
        let mut number = 1_usize;
        for index in group.into_iter().skip(1) {
            let Some(short) = shorts.get_mut(index) else { continue };
            let numbered = loop {
                number += 1;
                let numbered = format!("{short} ({number})");
                if used.insert(numbered.clone()) {
                    break numbered;
                }
            };
            *short = numbered;
        }
    }
}

/// A name and the tokens that its short form keeps.
struct Name<'a> {
    full: &'a str,
    /// The short form before it is abbreviated.
    name: String,
    /// The maximum number of characters of the abbreviation.
    room: usize,
    /// Tokens of `name` that an abbreviation keeps before others.
    varying: Vec<u8>,
    /// Tokens of `name` that an abbreviation keeps in any case.
    kept: Vec<u8>,
    /// A namespace that is written before the name.
    scope: Option<&'a str>,
    /// Tokens of the signature that are written as template arguments.
    arguments: Vec<&'a str>,
}

impl<'a> Name<'a> {
    fn new(full: &'a str, room: usize) -> Self {
        let name = unabridged(full);
        Self { full, name, room, varying: Vec::new(), kept: Vec::new(), scope: None, arguments: Vec::new() }
    }

    fn is_long(&self) -> bool {
        self.name.chars().count() > self.room
    }

    fn short(&self) -> String {
        let scope = self.scope.map(|scope| format!("{scope}::")).unwrap_or_default();
        if self.arguments.is_empty() {
            return scope.clone() + &self.abbreviated(self.room.saturating_sub(scope.chars().count()));
        }
        let (name, arguments) = match self.name.strip_suffix('>') {
            Some(name) => (name, format!(", {}>", self.arguments.join(", "))),
            None => (self.name.as_str(), format!("<{}>", self.arguments.join(", "))),
        };
        let added = scope.chars().count() + arguments.chars().count();
        let room = self.room.saturating_sub(added).max(self.room / MIN_NAME_PART);
        scope + &abbreviate(name, &self.kept, &self.varying, room) + &arguments
    }

    fn abbreviated(&self, room: usize) -> String {
        abbreviate(&self.name, &self.kept, &self.varying, room.max(self.room / MIN_NAME_PART))
    }
}

/// The abbreviation of a single name.
pub(super) fn abbreviated(name: &str) -> String {
    abbreviate(name, &[], &[], MAX_SHORT_CHARS)
}

/// Keeps the tokens of a name that matter most, with an ellipsis for the others: those in `kept`, the first token, tile
/// sizes, those in `varying`, and then the others from the left.
fn abbreviate(name: &str, kept: &[u8], varying: &[u8], room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let tokens = tokens(name);
    if tokens.len() < 3 {
        return shorten_middle(name, room);
    }
    let indices = || (0_u8..).zip(&tokens);
    let tiles = indices().filter(|(_, token)| is_tile(token)).map(|(index, _)| index).take(MAX_TILES);
    let important = kept.iter().copied().chain([0]).chain(tiles).chain(varying.iter().copied());
    let mut chosen = Chosen::new(&tokens, room);
    important.for_each(|index| {
        chosen.add(usize::from(index));
    });
    let _ = (0..tokens.len()).all(|index| chosen.add(index));
    if !chosen.is_chosen.contains(&true) {
        return shorten_middle(name, room);
    }
    let short = chosen.text();
    if short.chars().count() > room { shorten_middle(&short, room) } else { short }
}

/// The tokens of an abbreviation.
struct Chosen<'a> {
    tokens: &'a [&'a str],
    is_chosen: Vec<bool>,
    room: usize,
}

impl<'a> Chosen<'a> {
    fn new(tokens: &'a [&'a str], room: usize) -> Self {
        // The ellipsis between the begin and the end.
        Self { tokens, is_chosen: vec![false; tokens.len()], room: room.saturating_sub(1) }
    }

    fn has(&self, index: Option<usize>) -> bool {
        index.is_none_or(|index| self.is_chosen.get(index).copied().unwrap_or(true))
    }

    /// Adds a token if it fits. Both ends of the name count as chosen.
    fn add(&mut self, index: usize) -> bool {
        let Some(token) = self.tokens.get(index) else { return true };
        if self.has(Some(index)) {
            return true;
        }
        // A token between two others replaces an ellipsis; one next to no other needs one more.
        let neighbours = u8::from(self.has(index.checked_sub(1))) + u8::from(self.has(Some(index + 1)));
        let needed = (token.chars().count() + 1).saturating_sub(usize::from(neighbours));
        let fits = needed <= self.room;
        if let (true, Some(is_chosen)) = (fits, self.is_chosen.get_mut(index)) {
            *is_chosen = true;
            self.room -= needed;
        }
        fits
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut has_gap = false;
        for (token, is_chosen) in self.tokens.iter().zip(&self.is_chosen) {
            match (is_chosen, has_gap) {
                (true, true) => text += token.trim_start_matches('_'),
                (true, false) => text += token,
                (false, true) => {}
                (false, false) => text.push('\u{2026}'),
            }
            has_gap = !is_chosen;
        }
        text
    }
}

/// Splits a name before underscores and template arguments, and long parts before capital letters.
fn tokens(name: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let bytes = name.as_bytes();
    let mut start = 0;
    for part in parts(name) {
        let end = start + part.len();
        let is_boundary = |index: usize| {
            let (before, byte) = (bytes.get(index.wrapping_sub(1)), bytes.get(index));
            let follows = before.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            part.len() > MAX_WORD_BYTES && follows && byte.is_some_and(u8::is_ascii_uppercase)
        };
        let mut from = start;
        for index in (start + 1..end).filter(|index| is_boundary(*index)).chain([end]) {
            if tokens.len() + 1 == MAX_TOKENS {
                tokens.extend(name.get(from..));
                return tokens;
            }
            tokens.extend(name.get(from..index));
            from = index;
        }
        start = end;
    }
    tokens
}

/// Splits before each underscore that does not follow another one, and before each `<`.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let is_cut = |pair: &[u8]| matches!(pair, [before, b'_'] if *before != b'_') || pair.ends_with(b"<");
        let pairs = rest.as_bytes().windows(2).position(is_cut);
        let (part, after) = rest.split_at_checked(pairs.map_or(rest.len(), |index| index + 1))?;
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Whether a token contains a tile size such as `128x64`, or begins the name of a functor.
fn is_tile(token: &str) -> bool {
    let is_size = |bytes: &[u8]| matches!(bytes, [a, b'x', b] if a.is_ascii_digit() && b.is_ascii_digit());
    token.starts_with('<') || token.as_bytes().windows(3).any(is_size)
}

/// Marks the tokens of long names that other long names with the same first token lack.
fn mark_varying(names: &mut [Name]) {
    let mut families: HashMap<String, Vec<usize>, RandomState> = HashMap::default();
    for (index, name) in names.iter().enumerate().filter(|(_, name)| name.is_long()) {
        let first = tokens(&name.name).first().map(|token| (*token).to_owned());
        families.entry(first.unwrap_or_default()).or_default().push(index);
    }
    let mut families: Vec<Vec<usize>> = families.into_values().filter(|family| family.len() > 1).collect();
    ordering::sort_by(&mut families, Ord::cmp);
    let mut tokens_left = MAX_TOKENS_PER_ROUND;
    for family in families {
        let members = || family.iter().filter_map(|index| Some((*index, names.get(*index)?)));
        let mut counts: Counts<&str> = HashMap::default();
        for (index, name) in members() {
            let tokens = tokens(&name.name);
            tokens_left = tokens_left.saturating_sub(tokens.len());
            tokens.into_iter().for_each(|token| count(&mut counts, token, index));
        }
        if tokens_left == 0 {
            return;
        }
        let varies = |token: &str| counts.get(token).is_some_and(|(_, count)| (*count as usize) < family.len());
        let marked: Vec<(usize, Vec<u8>)> = members()
            .map(|(index, name)| {
                let varying = (0_u8..).zip(tokens(&name.name)).filter(|(_, token)| varies(token));
                (index, varying.map(|(position, _)| position).collect())
            })
            .collect();
        for (index, varying) in marked {
            if let Some(name) = names.get_mut(index) {
                name.varying = varying;
            }
        }
    }
}

/// Counts a token once per name.
fn count<K: std::hash::Hash + Eq>(counts: &mut Counts<K>, token: K, name: usize) {
    let (last, count) = counts.entry(token).or_insert((usize::MAX, 0));
    if *last != name {
        (*last, *count) = (name, *count + 1);
    }
}

/// A token that can distinguish a name. The order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A token of the name that its abbreviation leaves out.
    Hidden,
    DataType,
    Word,
    Number,
    Scope,
    Lambda,
}

#[derive(Debug, Clone, Copy)]
struct Candidate<'a> {
    kind: Kind,
    token: &'a str,
    /// Position in the name if the token is hidden, otherwise in the signature.
    position: usize,
}

/// The candidate that is added to a name.
struct Added {
    kind: Kind,
    position: usize,
    token: String,
}

/// Adds to each name of a group the best token that not all names of the group have. Returns the indices of the names
/// that changed.
fn add_tokens(names: &mut [Name], group: &[usize], tokens_left: &mut usize) -> Vec<usize> {
    if *tokens_left == 0 {
        return Vec::new();
    }
    let (mut anywhere, mut at_position) = (Counts::default(), Counts::default());
    // The tokens of the names are borrowed while the names change: copies of the texts.
    let texts: Vec<(usize, String)> =
        group.iter().filter_map(|index| Some((*index, names.get(*index)?.name.clone()))).collect();
    for (index, text) in &texts {
        let Some(name) = names.get(*index) else { continue };
        let candidates = candidates(name, text);
        *tokens_left = tokens_left.saturating_sub(candidates.len().max(1));
        for candidate in candidates {
            count(&mut anywhere, candidate.token, *index);
            count(&mut at_position, (candidate.position, candidate.token), *index);
        }
        if *tokens_left == 0 {
            return Vec::new();
        }
    }
    let best = |name: &Name, text: &str| -> Option<Added> {
        let varying =
            |count: Option<&(usize, u32)>| count.map(|(_, count)| *count as usize).filter(|count| *count < group.len());
        let candidates = candidates(name, text);
        let distinguishes = |candidate: &&Candidate| varying(anywhere.get(candidate.token)).is_some();
        let by_token = candidates.iter().filter(distinguishes).min_by_key(|candidate| {
            (candidate.kind, anywhere.get(candidate.token).map(|(_, count)| *count), candidate.position)
        });
        let by_position = || {
            let differs =
                |candidate: &&Candidate| varying(at_position.get(&(candidate.position, candidate.token))).is_some();
            candidates.iter().find(differs)
        };
        by_token.or_else(by_position).map(|best| Added {
            kind: best.kind,
            position: best.position,
            token: best.token.to_owned(),
        })
    };
    let chosen: Vec<(usize, Option<Added>)> =
        texts.iter().map(|(index, text)| (*index, names.get(*index).and_then(|name| best(name, text)))).collect();
    let mut changed = Vec::new();
    for (index, best) in chosen {
        if let (Some(name), Some(added)) = (names.get_mut(index), best) {
            name.add(&added);
            changed.push(index);
        }
    }
    changed
}

impl<'a> Name<'a> {
    fn add(&mut self, Added { kind, position, token }: &Added) {
        match kind {
            Kind::Hidden => self.kept.extend(u8::try_from(*position)),
            // The token is a part of the signature, which lives longer than the token.
            _ => {
                let found = signature_tokens(self.full).nth(*position).map(|(_, found, _)| found);
                let Some(found) = found.filter(|found| *found == token) else { return };
                if *kind == Kind::Scope && self.scope.is_none() {
                    self.scope = Some(found);
                } else {
                    self.arguments.push(found);
                }
            }
        }
    }
}

/// The tokens that the short form does not show.
fn candidates<'b>(name: &Name<'b>, text: &'b str) -> Vec<Candidate<'b>> {
    let mut candidates = Vec::new();
    let short = name.short();
    if name.is_long() {
        let hidden = tokens(text).into_iter().enumerate().filter(|(position, token)| {
            let is_kept = u8::try_from(*position).is_ok_and(|position| name.kept.contains(&position));
            !is_kept && !short.contains(token.trim_start_matches('_')) && token.chars().count() <= MAX_TOKEN_CHARS
        });
        candidates.extend(hidden.map(|(position, token)| Candidate { kind: Kind::Hidden, token, position }));
    }
    if is_cpp(name.full) {
        let is_shown = |token: &str| name.arguments.contains(&token) || name.scope == Some(token);
        let tokens = signature_tokens(name.full).enumerate().take(MAX_CANDIDATES);
        let fitting = tokens.filter(|(_, (_, token, _))| !is_shown(token) && token.chars().count() <= MAX_TOKEN_CHARS);
        candidates.extend(fitting.map(|(position, (kind, token, _))| Candidate { kind, token, position }));
    }
    candidates
}

/// The identifiers and numbers of a signature with their kinds and start. `#` belongs to the number of a lambda.
fn signature_tokens(signature: &str) -> impl Iterator<Item = (Kind, &str, usize)> {
    let bytes = signature.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + bytes.get(from..)?.iter().position(|byte| is_identifier(*byte))?;
        let length = bytes.get(start..)?.iter().position(|byte| !is_identifier(*byte));
        let end = length.map_or(bytes.len(), |length| start + length);
        from = end;
        let is_lambda = start > 0 && bytes.get(start - 1) == Some(&b'#');
        let token = signature.get(if is_lambda { start - 1 } else { start }..end)?;
        let kind = match token.as_bytes().first() {
            _ if is_lambda => Kind::Lambda,
            _ if WORDS.data_types.contains(token) => Kind::DataType,
            Some(b'0'..=b'9') => Kind::Number,
            _ if token == "true" || token == "false" => Kind::Number,
            _ if bytes.get(end..).is_some_and(|rest| rest.starts_with(b"::")) => Kind::Scope,
            _ => Kind::Word,
        };
        Some((kind, token, start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn all_differ(shorts: &[String]) -> bool {
        shorts.iter().collect::<HashSet<_>>().len() == shorts.len()
    }

    #[test]
    fn tile_sizes_and_varying_tokens_survive_the_abbreviation() {
        let names = [
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_WG32_8_1",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x64x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1_WG32_8_1",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x64x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1_WG64_4_1",
        ];
        let shorts = distinct(&names);
        assert_eq!(shorts[0], "Cijk_Alik_Bljk…MT256x32x64_MI16x16x1…LDSB1…WG32_8…");
        assert!(shorts[1].contains("MT128x64x64") && shorts[1].contains("WG32"), "{shorts:?}");
        assert!(shorts[2].contains("MT128x64x64") && shorts[2].contains("WG64"), "{shorts:?}");
        assert!(shorts.iter().all(|short| short.chars().count() <= MAX_SHORT_CHARS), "{shorts:?}");
    }

    #[test]
    fn a_name_whose_tokens_are_all_longer_than_the_room_keeps_both_ends() {
        assert_eq!(
            distinct_within(&["fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvDenseP64MultiCtas"], 16),
            ["fmhaSm100f…iCtas"]
        );
    }

    #[test]
    fn an_added_argument_takes_no_more_than_the_room_and_names_stay_distinct() {
        let apply = |functor: &str| {
            format!(
                "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, at::native::{functor}<float>>(int)"
            )
        };
        let names =
            ["PointwiseOpScalarListFunctor", "PointwiseOpScalarTensorFunctor", "BinaryOpScalarFunctor"].map(apply);
        let shorts = distinct_within(&names, 30);
        assert!(shorts.iter().all(|short| short.chars().count() <= 30), "{shorts:?}");
        assert!(all_differ(&shorts), "{shorts:?}");
    }

    #[test]
    fn names_of_trtllm_gen_keep_what_they_do_not_share() {
        let gemm = |middle: &str, tail: &str| {
            format!(
                "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et64x8_m64x8x16_cga1x1x1_16dp256b_{middle}_TN_transOut_schedS_bN_tma_tmaOpt{tail}_dynB_sm100f"
            )
        };
        let shorts = distinct(&[gemm("splitK1_rM", "_clmp_swiGlu"), gemm("splitK1_rM", "_clmp")]);
        assert!(shorts[0].contains("t128x8x128u2") && shorts[0].contains("swiGlu"), "{shorts:?}");
        assert!(shorts[1].contains("t128x8x128u2") && !shorts[1].contains("swiGlu"), "{shorts:?}");
    }

    #[test]
    fn equal_names_of_different_kernels_get_the_argument_that_differs() {
        let copy = |number: u32, data_type: &str| {
            format!(
                "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)\
                 ::{{lambda()#3}}::operator()() const::{{lambda()#{number}}}::operator()() const::{{lambda({data_type})#1}}, 4>(int)"
            )
        };
        assert_eq!(
            distinct(&[copy(7, "float"), copy(12, "c10::BFloat16"), "gemm".to_owned()]),
            [
                "unrolled_elementwise_kernel<direct_copy_kernel…, float>",
                "unrolled_elementwise_kernel<direct_copy…, BFloat16>",
                "gemm"
            ]
        );
        assert_eq!(
            distinct(&["void vllm::rms_norm_kernel<half>(int)", "void sglang::rms_norm_kernel<half>(int)"]),
            ["vllm::rms_norm_kernel", "sglang::rms_norm_kernel"]
        );
        assert_eq!(
            distinct(&["void k<4, half>()", "void k<8, half>()", "void k<8, float>()"]),
            ["k<half, 4>", "k<half, 8>", "k<float>"]
        );
        assert_eq!(distinct(&["void k<float, half>()", "void k<half, float>()"]), ["k<float>", "k<half>"]);
    }

    #[test]
    fn names_that_no_token_distinguishes_are_numbered_by_their_full_name() {
        assert_eq!(distinct(&["void k<+>(int)", "void k<*>(int)", "k (2)"]), ["k (3)", "k", "k (2)"]);
        assert_eq!(distinct(&["k", "k"]), ["k", "k (2)"]);
    }

    #[test]
    fn a_narrow_column_shows_what_tells_the_kernels_of_a_trace_apart() {
        // Names of recorded traces: functors, tile sizes, data types, stages, and the namespace of a word that says nothing alone.
        let wrapper = |functor: &str| {
            format!("void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 2ul> >(int)")
        };
        let names = [
            wrapper("at::native::CUDAFunctorOnSelf_add<long>"),
            wrapper("at::native::CUDAFunctorOnSelf_add<int>"),
            wrapper("at::native::FillFunctor<c10::BFloat16>"),
            "nvjet_sm103_tst_384x16_64x4_4x1_v_bz_TNT".to_owned(),
            "nvjet_sm103_tst_64x16_64x16_4x1_v_bz_TNT".to_owned(),
            "nvjet_sm103_tst_64x16_64x16_4x1_v_bz_splitK_TNT".to_owned(),
            "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)".to_owned(),
            "void deep_ep::intranode::dispatch<true, false, 7168>(void*)".to_owned(),
            "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et128x8_m128x8x16_c1x1x1_16dp256b_rM_BN_transOut_schPd2x1x2x3_bN".to_owned(),
            "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s5_et128x8_m128x8x16_c1x1x1_16dp256b_rM_BN_transOut_schPd2x1x2x3_bN".to_owned(),
        ];
        let shorts = distinct_within(&names, 30);
        assert!(all_differ(&shorts), "{shorts:?}");
        for (short, words) in shorts.iter().zip([
            &[", long>"][..],
            &[", int>"],
            &["FillFunctor"],
            &["384x16"],
            &["64x16"],
            &["64x16", "splitK"],
            &["internode_ll::dispatch"],
            &["intranode::dispatch"],
            &["t128x8x128u2", "s6"],
            &["t128x8x128u2", "s5"],
        ]) {
            assert!(
                words.iter().all(|word| short.contains(word)) && short.chars().count() <= 32,
                "{short}: {words:?} of {shorts:?}"
            );
        }
    }

    #[test]
    fn many_long_names_are_shortened_in_a_moment() {
        let started = Instant::now();
        let alike: Vec<String> =
            (0..20_000).map(|index| format!("{}_{index}_{}", "abc_def".repeat(20), "x_y_".repeat(40))).collect();
        assert!(all_differ(&distinct(&alike)));
        let arguments = "float, ".repeat(60);
        let templates: Vec<String> = (0..20_000).map(|index| format!("void ns::k<{arguments}{index}>(int)")).collect();
        assert!(all_differ(&distinct(&templates)));
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn different_names_have_different_short_names(
            names in proptest::collection::vec(r"(k|void a::k<[abx0-9_:, ]{0,12}>\(\)|(Cijk_|bmm_|aB)[a-cA-C0-9x_<>]{50,90}|[ a-b<>():_\u{e9}]{0,9})", 0..40),
        ) {
            let shorts = distinct(&names);
            prop_assert!(all_differ(&shorts), "{shorts:?}");
            for max_chars in [0, 20, 30] {
                let narrow = distinct_within(&names, max_chars);
                prop_assert!(all_differ(&narrow), "{max_chars}: {narrow:?}");
            }
            let again: Vec<&String> = names.iter().rev().collect();
            let differing: HashSet<&String> = names.iter().collect();
            if differing.len() == names.len() {
                let mut reversed = distinct(&again);
                reversed.reverse();
                prop_assert_eq!(reversed, shorts, "the order of the names has no effect");
            }
        }
    }
}
