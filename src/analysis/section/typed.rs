//! Typed sections: a section is declared once, with its name, title, rows, figures, and the unit of each column.
//!
//! An analysis returns an [`Answer`], which holds typed rows. [`Answer::section`] turns it into a [`Section`], the form of JSON and
//! tables; [`TypedSection::read`] turns a [`Section`] back into typed rows, also one of an earlier report. Analyses that use the
//! results of others read them this way, so a misspelt column does not compile. Both directions take O(cells).
//!
//! ```text
//! section! {
//!     /// Where the host waited.
//!     pub(crate) struct Waits("waits", "Waits of the host");
//!     row WaitRow { api_name: String = "Call", total_time_ms: Ms = "Total" }
//!     figures WaitFigures { calls: u64 }
//! }
//! ```
//!
//! `row` or `figures` may be left out. A title is only given where it differs from the words of the key.
//! [`SPECS`](crate::analysis::sections::SPECS) lists all declared sections.

use super::units::ColumnKind;
use super::{FIRST_OP, Missing, Record, Section, Sections};
use crate::trace::Trace;

/// What is known of a column or figure without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The key in JSON, with the unit at the end.
    pub key: &'static str,
    /// The displayed title; empty if the words of the key are the title.
    pub title: &'static str,
    /// How values are shown.
    pub kind: ColumnKind,
}

/// What is known of a section without a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionSpec {
    /// The name in JSON.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The columns of its rows, in order.
    pub columns: &'static [ColumnSpec],
    /// Its figures, in order.
    pub figures: &'static [ColumnSpec],
}

/// A struct whose fields are the columns of a row, or the figures of a section. `section!` implements it.
pub trait Fields: Default {
    /// One per field, in order.
    const COLUMNS: &'static [ColumnSpec];
    /// Appends the values of all fields.
    fn write(self, record: &mut Record);
    /// Reads all fields. Fields that the record lacks have their default value.
    fn read(record: &Record) -> Self;
}

/// A section without rows or without figures.
impl Fields for () {
    const COLUMNS: &'static [ColumnSpec] = &[];
    fn write(self, _: &mut Record) {}
    fn read(_: &Record) -> Self {}
}

/// A declared section.
pub trait TypedSection: Sized {
    /// Name, title and columns.
    const SPEC: SectionSpec;
    /// One row; `()` if there are only figures.
    type Row: Fields;
    /// The single figures; `()` if there are none.
    type Figures: Fields;

    /// The section in the form of JSON and tables, unless the trace lacks its data.
    fn filled(sections: &Sections) -> Option<&Section> {
        sections.get(Self::SPEC.name).filter(|section| section.missing.is_none())
    }

    /// The rows; none if the trace lacks the data of the section.
    fn rows(sections: &Sections) -> Vec<Self::Row> {
        Self::filled(sections).map_or_else(Vec::new, |section| section.rows.iter().map(Fields::read).collect())
    }

    /// The figures; `None` if the trace lacks the data of the section.
    fn figures(sections: &Sections) -> Option<Self::Figures> {
        Self::filled(sections).map(|section| Fields::read(&section.summary))
    }

    /// Rows and figures; `None` if the trace lacks the data of the section.
    fn read(sections: &Sections) -> Option<Answer<Self>> {
        let section = Self::filled(sections)?;
        Some(Answer {
            title: Self::SPEC.title,
            derived_from: section.derived_from.clone(),
            limits: section.limits.clone(),
            missing: None,
            figures: Some(Fields::read(&section.summary)),
            rows: section.rows.iter().map(Fields::read).collect(),
            rows_in_all: section.rows_in_all,
            hidden: Vec::new(),
        })
    }

    /// An answer without rows, from these data.
    fn answer(derived_from: impl Into<String>) -> Answer<Self> {
        Answer {
            title: Self::SPEC.title,
            derived_from: derived_from.into(),
            limits: Vec::new(),
            missing: None,
            figures: None,
            rows: Vec::new(),
            rows_in_all: 0,
            hidden: Vec::new(),
        }
    }

    /// The answer of a trace that lacks the data of the section; `recapture` is the command that captures them, or empty.
    fn missing(why: impl Into<String>, recapture: impl Into<String>) -> Answer<Self> {
        Answer { missing: Some(Missing { why: why.into(), recapture: recapture.into() }), ..Self::answer("") }
    }
}

/// The content of a section: figures and typed rows, or what is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<S: TypedSection> {
    /// The heading.
    pub title: &'static str,
    /// The data that the section is computed from, as a phrase.
    pub derived_from: String,
    /// Limits of the results, one sentence each.
    pub limits: Vec<String>,
    /// Why the section is empty; `None` if it is filled.
    pub missing: Option<Missing>,
    /// The single figures; `None` if there are none to show.
    pub figures: Option<S::Figures>,
    /// The rows.
    pub rows: Vec<S::Row>,
    /// The number of rows before the table was cut to its limit, if it is more than those here.
    pub rows_in_all: u64,
    /// Keys of columns that this answer does not show.
    pub hidden: Vec<&'static str>,
}

impl<S: TypedSection> Answer<S> {
    /// Adds a limit.
    pub fn limit(mut self, sentence: impl Into<String>) -> Self {
        self.limits.push(sentence.into());
        self
    }

    /// Sets the figures.
    pub fn with_figures(mut self, figures: S::Figures) -> Self {
        self.figures = Some(figures);
        self
    }

    /// Sets the rows.
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = S::Row>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Keeps the first rows and remembers the number of all rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows_in_all = self.rows_in_all.max(self.rows.len() as u64);
        self.rows.truncate(rows);
    }

    /// Leaves out a column, such as `RankRow::job`.
    pub fn hide(&mut self, key: &'static str) {
        self.hidden.push(key);
    }

    /// Adds the section to others under its name.
    pub fn put(self, sections: &mut Sections) {
        sections.insert(S::SPEC.name.to_owned(), self.section());
    }

    /// The form of JSON and tables.
    pub fn section(self) -> Section {
        let is_shown = |key: &str| !self.hidden.contains(&key);
        let keys = S::Row::COLUMNS.iter().map(|column| column.key).filter(|key| is_shown(key));
        let mut summary = Record::default();
        if let Some(figures) = self.figures {
            figures.write(&mut summary);
        }
        let row = |row: S::Row| {
            let mut record = Record(Vec::with_capacity(S::Row::COLUMNS.len()));
            row.write(&mut record);
            if !self.hidden.is_empty() {
                record.0.retain(|(key, _)| is_shown(key));
            }
            record
        };
        Section {
            title: self.title.to_owned(),
            derived_from: self.derived_from,
            limits: self.limits,
            missing: self.missing,
            summary,
            rows_in_all: self.rows_in_all.max(self.rows.len() as u64),
            columns: keys.map(str::to_owned).collect(),
            rows: self.rows.into_iter().map(row).collect(),
        }
    }
}

impl<S: TypedSection> From<Answer<S>> for Section {
    fn from(answer: Answer<S>) -> Self {
        answer.section()
    }
}

/// The start of the first GPU op, for the figure [`FIRST_OP`]: text outputs show points in time relative to it.
pub(crate) fn first_op(trace: &Trace) -> super::Stated<super::At> {
    super::Stated(trace.beginning().map(super::At))
}

const _: () = assert!(matches!(FIRST_OP.as_bytes(), b"first_op_ns"), "the name of the field in the declarations");

/// Declares a section: its type, the type of its rows, and that of its figures. See the module [`typed`](self).
macro_rules! section {
    (
        $(#[$doc:meta])*
        $vis:vis struct $section:ident($name:literal, $title:expr);
        $(row $row:ident { $($rows:tt)* })?
        $(figures $figures:ident { $($figure_fields:tt)* })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $section;
        $($crate::analysis::section::fields! {
            #[doc = concat!("A row of `", $name, "`.")]
            $vis struct $row { $($rows)* }
        })?
        $($crate::analysis::section::fields! {
            #[doc = concat!("The figures of `", $name, "`.")]
            $vis struct $figures { $($figure_fields)* }
        })?
        impl $crate::analysis::section::TypedSection for $section {
            const SPEC: $crate::analysis::section::SectionSpec = $crate::analysis::section::SectionSpec {
                name: $name,
                title: $title,
                columns: <Self::Row as $crate::analysis::section::Fields>::COLUMNS,
                figures: <Self::Figures as $crate::analysis::section::Fields>::COLUMNS,
            };
            type Row = $crate::analysis::section::section!(@fields $($row)?);
            type Figures = $crate::analysis::section::section!(@fields $($figures)?);
        }
    };
    (@fields) => { () };
    (@fields $fields:ident) => { $fields };
}

/// Declares a struct whose fields are columns or figures: `key: Type = "Title"`; the title may be left out. The key of each field is
/// also a constant of the type, for code that needs the text.
macro_rules! fields {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty $(= $title:literal)? ),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        $vis struct $name {
            $( $(#[$field_doc])* $vis $field: $type, )*
        }
        impl $crate::analysis::section::Fields for $name {
            const COLUMNS: &'static [$crate::analysis::section::ColumnSpec] = &[ $(
                $crate::analysis::section::ColumnSpec {
                    key: stringify!($field),
                    title: concat!("" $(, $title)?),
                    kind: <$type as $crate::analysis::section::Field>::KIND,
                },
            )* ];
            fn write(self, record: &mut $crate::analysis::section::Record) {
                $( $crate::analysis::section::Field::write(self.$field, stringify!($field), record); )*
            }
            fn read(record: &$crate::analysis::section::Record) -> Self {
                Self { $( $field: $crate::analysis::section::Field::read(stringify!($field), record), )* }
            }
        }
        #[allow(non_upper_case_globals, dead_code, missing_docs, reason = "named like the fields; few are needed")]
        impl $name {
            $( $vis const $field: &'static str = stringify!($field); )*
        }
    };
}

pub(crate) use {fields, section};
