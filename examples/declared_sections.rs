//! Prints the columns of all declared sections with a title of their own, a line each: section, key and title, separated by tabs.
//!
//! `cargo run --example declared_sections`. The reference of JSON reports takes the titles from here.

#![allow(clippy::print_stdout, reason = "what it is for")]

fn main() {
    for section in gpuprism::analysis::sections::SPECS {
        for column in section.columns.iter().chain(section.figures).filter(|column| !column.title.is_empty()) {
            println!("{}\t{}\t{}", section.name, column.key, column.title);
        }
    }
}
