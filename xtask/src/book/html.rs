//! Renders the Markdown chapters as HTML pages without scripts, and checks that every link leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

use crate::{page, project};

/// The chapter whose links give the order of the book.
const CONTENTS: &str = "docs/README.md";

/// Documents outside `docs/` whose links are checked too.
const OTHER_DOCUMENTS: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "examples/README.md", "benches/README.md"];

const STYLE: &str = include_str!("book.css");

/// Writes the book into `dist/docs`.
pub fn render(dist: &Path) -> Result<()> {
    let root = project::root();
    let book = Book::read()?;
    for (path, chapter) in book.chapters.iter().filter(|(path, _)| path.starts_with("docs")) {
        let target = dist.join(html_name(path));
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&target, book.page(path, chapter)?).with_context(|| format!("cannot write {}", target.display()))?;
    }
    for image in page::files_under(&root.join("docs"))?.iter().filter(|path| has_extension(path, "png")) {
        let target = dist.join(image.strip_prefix(root)?);
        fs::create_dir_all(target.parent().unwrap_or(dist))?;
        fs::copy(image, &target).with_context(|| format!("cannot write {}", target.display()))?;
    }
    fs::write(dist.join("docs/book.css"), style(&fs::read_to_string(root.join("www/style.css"))?)?)?;
    Ok(())
}

/// Fails at the first link, in any document, whose file or heading does not exist.
pub fn check_links() -> Result<()> {
    let book = Book::read()?;
    for path in book.chapters.keys() {
        book.events(path)?;
    }
    for path in book.chapters.keys().filter(|path| path.parent() == Some(Path::new("docs"))) {
        if path != Path::new(CONTENTS) && !book.order.contains(path) {
            bail!("{CONTENTS} does not link to {}", path.display());
        }
    }
    Ok(())
}

struct Chapter {
    text: String,
    title: String,
    /// The ids of the headings, in their order.
    ids: Vec<String>,
}

/// All documents by their path from the repository root.
struct Book {
    chapters: BTreeMap<PathBuf, Chapter>,
    /// The chapters in the order of the contents.
    order: Vec<PathBuf>,
}

impl Book {
    fn read() -> Result<Self> {
        let root = project::root();
        let mut paths: Vec<PathBuf> =
            OTHER_DOCUMENTS.iter().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect();
        for path in page::files_under(&root.join("docs"))?.iter().filter(|path| has_extension(path, "md")) {
            paths.push(path.strip_prefix(root)?.to_owned());
        }
        let mut chapters = BTreeMap::new();
        for path in paths {
            let text =
                fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            chapters.insert(path, Chapter::new(text));
        }
        let contents = chapters.get(Path::new(CONTENTS)).context("the book has no contents")?;
        let mut order = Vec::new();
        for event in Parser::new(&contents.text) {
            if let Event::Start(Tag::Link { dest_url, .. }) = event {
                let path = resolve(Path::new(CONTENTS), dest_url.split('#').next().unwrap_or_default());
                if chapters.contains_key(&path) && path.starts_with("docs") && !order.contains(&path) {
                    order.push(path);
                }
            }
        }
        Ok(Self { chapters, order })
    }

    /// The parsed document with ids at its headings and links between HTML files. Links to files outside the book become text.
    fn events<'a>(&'a self, path: &Path) -> Result<Vec<Event<'a>>> {
        let chapter = self.chapters.get(path).context("no such chapter")?;
        let mut ids = chapter.ids.iter();
        let mut events = Vec::new();
        let mut dropped = false;
        for event in Parser::new_ext(&chapter.text, options()) {
            match event {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    let id = ids.next().map(|id| CowStr::from(id.as_str()));
                    events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let target = if link_type == LinkType::Email {
                        Some(dest_url.to_string())
                    } else {
                        self.target(path, &dest_url)?
                    };
                    dropped = target.is_none();
                    if let Some(target) = target {
                        events.push(Event::Start(Tag::Link { link_type, dest_url: target.into(), title, id }));
                    }
                }
                Event::End(TagEnd::Link) if dropped => dropped = false,
                Event::Start(Tag::Image { ref dest_url, .. }) => {
                    self.target(path, dest_url)?;
                    events.push(event);
                }
                // A wide table scrolls by itself.
                Event::Start(Tag::Table(_)) => {
                    events.extend([Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()), event])
                }
                Event::End(TagEnd::Table) => events.extend([event, Event::Html("</div>".into())]),
                event => events.push(event),
            }
        }
        Ok(events)
    }

    /// The address of a link in the HTML book; none for a file of the repository outside of it.
    fn target(&self, from: &Path, link: &str) -> Result<Option<String>> {
        if link.contains("://") {
            return Ok(Some(link.to_owned()));
        }
        let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
        let path = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
        if !project::root().join(&path).exists() {
            bail!("{}: the link `{link}` leads to no file", from.display());
        }
        if let (Some(heading), Some(chapter)) = (heading, self.chapters.get(&path))
            && !chapter.ids.iter().any(|id| id == heading)
        {
            bail!("{}: the link `{link}` leads to no heading", from.display());
        }
        if !path.starts_with("docs") {
            return Ok(None);
        }
        if !has_extension(&path, "md") {
            return Ok(Some(file.to_owned()));
        }
        let name =
            if file.is_empty() { String::new() } else { html_name(Path::new(file)).to_string_lossy().into_owned() };
        Ok(Some(heading.map_or(name.clone(), |heading| format!("{name}#{heading}"))))
    }

    fn page(&self, path: &Path, chapter: &Chapter) -> Result<String> {
        let mut content = String::new();
        pulldown_cmark::html::push_html(&mut content, self.events(path)?.into_iter());
        let depth = path.components().count() - 1;
        let (to_root, to_docs) = ("../".repeat(depth), "../".repeat(depth - 1));
        let mut contents = String::new();
        for listed in
            [PathBuf::from(CONTENTS)].iter().chain(self.order.iter().filter(|path| path.components().count() == 2))
        {
            let Some(title) = self.chapters.get(listed).map(|chapter| escape(&chapter.title)) else { continue };
            let name = html_name(listed.strip_prefix("docs")?);
            let current = if listed == path { " aria-current=\"page\"" } else { "" };
            contents += &format!("<li><a href=\"{to_docs}{}\"{current}>{title}</a></li>\n", name.display());
        }
        Ok(format!(
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - gpuprism</title>
<link rel="icon" href="{to_root}favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{to_docs}book.css">
</head>
<body>
<header><a href="{to_root}index.html">gpuprism</a></header>
<div class="columns">
<nav aria-label="Chapters"><ul>
{contents}</ul></nav>
<main>
{content}</main>
</div>
</body>
</html>
"#,
            title = escape(&chapter.title)
        ))
    }
}

impl Chapter {
    fn new(text: String) -> Self {
        let (mut title, mut ids) = (String::new(), Vec::new());
        let mut taken = BTreeSet::new();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(&text, options()) {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(words) | Event::Code(words), Some(heading)) => *heading += &words,
                (Event::End(TagEnd::Heading(level)), _) => {
                    let words = heading.take().unwrap_or_default();
                    let id = slug(&words);
                    // GitHub numbers headings of the same text from the second on.
                    let free = (1..).map(|number| format!("{id}-{number}")).find(|id| !taken.contains(id));
                    let id = if taken.contains(&id) { free.unwrap_or_default() } else { id };
                    taken.insert(id.clone());
                    ids.push(id);
                    if level == HeadingLevel::H1 && title.is_empty() {
                        title = words;
                    }
                }
                _ => {}
            }
        }
        Self { text, title, ids }
    }
}

fn options() -> Options {
    Options::ENABLE_TABLES
}

/// The id that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let letters = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    letters.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// `docs/ranks.md` becomes `docs/ranks.html`, and each `README.md` the `index.html` of its folder.
fn html_name(path: &Path) -> PathBuf {
    if path.ends_with("README.md") { path.with_file_name("index.html") } else { path.with_extension("html") }
}

/// The path from the repository root that a relative link of the document `from` means.
fn resolve(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// The book's style sheet: the colours of the page's, then the book's own rules.
fn style(page: &str) -> Result<String> {
    let start = page.find(":root {").context("www/style.css has no `:root {`")?;
    let tokens = page.get(start..).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    for used in STYLE.split("var(").skip(1).filter_map(|rest| rest.split(')').next()) {
        if !tokens.contains(&format!("{used}:")) {
            bail!("the book's style sheet uses {used}, which www/style.css does not define");
        }
    }
    Ok(format!("{tokens}\n\n{STYLE}"))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Chapter, html_name, resolve, slug};
    use std::path::Path;

    #[test]
    fn headings_have_the_ids_that_github_gives_them() {
        assert_eq!(slug("How to read `the` numbers, part 2"), "how-to-read-the-numbers-part-2");
        let chapter = Chapter::new("# Ranks\n\n## Times\n\n## Times\n".to_owned());
        assert_eq!((chapter.title.as_str(), chapter.ids.join(" ")), ("Ranks", "ranks times times-1".to_owned()));
    }

    #[test]
    fn links_are_resolved_from_the_folder_of_their_document() {
        assert_eq!(resolve(Path::new("docs/decisions/001.md"), "../ranks.md"), Path::new("docs/ranks.md"));
        assert_eq!(resolve(Path::new("README.md"), "docs/"), Path::new("docs"));
        assert_eq!(html_name(Path::new("docs/README.md")), Path::new("docs/index.html"));
    }
}
