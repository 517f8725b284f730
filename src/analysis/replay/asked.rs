//! Changes that a person asks for: `gpuprism what-if --without ID --speed REGEX=2 --graph STAGE`. They are replayed together.

use crate::analysis::structure::stages::Stage;
use crate::words::replay as words;
use crate::{Error, Result};
use regex_lite::Regex;

/// The most bytes of a pattern.
const MAX_PATTERN: usize = 1_000;

/// One change that is asked for.
#[derive(Debug, Clone)]
pub enum Asked {
    /// Without the cause of this row of `what_if`.
    Without(String),
    /// Kernels whose short or full name matches take the part `1 / factor` of their time.
    Speed {
        /// The pattern as it was written, with its factor.
        text: String,
        /// Of kernel names.
        pattern: Regex,
        /// Greater than 0.
        factor: f64,
    },
    /// Launches of the steps of this stage become launches of graphs.
    Graph(Stage),
}

impl Asked {
    /// Parses what [`Asked::name`] writes: the id of a row, `speed:REGEX=2`, or `graph:STAGE`.
    ///
    /// # Errors
    /// Those of [`Asked::speed`] and [`Asked::graph`].
    ///
    /// ```
    /// use gpuprism::analysis::replay::asked::Asked;
    /// assert!(matches!(Asked::parse("speed:gemm|attention=1.5"), Ok(Asked::Speed { factor: 1.5, .. })));
    /// assert!(matches!(Asked::parse("all_blocking"), Ok(Asked::Without(_))));
    /// assert!(Asked::parse("speed:gemm=0").is_err() && Asked::parse("graph:nothing").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some(("speed", speed)) => Self::speed(speed),
            Some(("graph", stage)) => Self::graph(stage),
            _ => Ok(Self::Without(text.to_owned())),
        }
    }

    /// Parses `REGEX=2`.
    ///
    /// # Errors
    /// There is no factor, or it is not greater than 0; the pattern is not a regular expression.
    pub fn speed(text: &str) -> Result<Self> {
        let why = "give a regular expression for kernel names and a factor, for example --speed 'attention=1.5'";
        let (pattern, factor) = text.rsplit_once('=').ok_or_else(|| Error::usage(text, why))?;
        let factor: f64 = factor.trim().parse().map_err(|_| Error::usage(text, why))?;
        if !(factor > 0.0 && factor.is_finite()) || pattern.len() > MAX_PATTERN {
            return Err(Error::usage(text, why));
        }
        let pattern = Regex::new(pattern).map_err(|error| Error::usage(text, error.to_string()))?;
        Ok(Self::Speed { text: text.to_owned(), pattern, factor })
    }

    /// Parses the label of a stage: `decode`.
    ///
    /// # Errors
    /// There is no such stage.
    pub fn graph(stage: &str) -> Result<Self> {
        let found = Stage::ALL.into_iter().find(|known| known.label() == stage);
        found.map(Self::Graph).ok_or_else(|| Error::usage(stage, words::no_such_stage(&Stage::ALL.map(Stage::label))))
    }

    /// The names of changes, as [`Asked::parse`] takes them: ids of rows, `REGEX=2` for each speed, and labels of stages.
    ///
    /// # Errors
    /// Those of [`Asked::speed`] and [`Asked::graph`].
    pub fn names(without: &[String], speed: &[String], graph: &[String]) -> Result<Vec<String>> {
        let speeds = speed.iter().map(|text| Self::speed(text));
        let graphs = graph.iter().map(|stage| Self::graph(stage));
        let changes = speeds.chain(graphs).map(|asked| Ok(asked?.name())).collect::<Result<Vec<_>>>()?;
        Ok(without.iter().cloned().chain(changes).collect())
    }

    /// How it is named in the table.
    pub fn name(&self) -> String {
        match self {
            Self::Without(id) => id.clone(),
            Self::Speed { text, .. } => ["speed:", text].concat(),
            Self::Graph(stage) => ["graph:", stage.label()].concat(),
        }
    }
}
