//! A page: a whole HTML document.

use maud::{DOCTYPE, Markup, html};

use crate::STYLE_PATH;
use crate::cell::{Cell, Tone};
use crate::href::Href;
use crate::query::query_value;
use crate::table::Table;
use crate::value::shown;

/// Seconds after which a page asks for itself again.
const REFRESH_S: u32 = 10;

/// A browser runs no script of the page, loads nothing but the stylesheet, and sends no form anywhere else. The server's own
/// headers add what a document cannot say, such as who may frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'";

/// A document with a heading, links, notices, figures and tables, in the order in which they were added.
#[derive(Debug)]
pub struct Page {
    title: String,
    product: &'static str,
    path: Option<&'static str>,
    is_paused: bool,
    links: Vec<(&'static str, Href)>,
    sections: Vec<Markup>,
}

impl Page {
    /// A page of this title, which names the server, and the product that it is a part of.
    pub fn new(title: impl AsRef<str>, product: &'static str) -> Self {
        let title = shown(title.as_ref()).into_owned();
        Self { title, product, path: None, is_paused: false, links: Vec::new(), sections: Vec::new() }
    }

    /// The page at `path` asks for itself again every 10 s, unless the request's query says `refresh=off`.
    pub fn refreshing(mut self, path: &'static str, query: &str) -> Self {
        self.path = Some(path);
        self.is_paused = query_value(query, "refresh").as_deref() == Some("off");
        self
    }

    /// A link in the head of the page.
    pub fn link(mut self, text: &'static str, href: Href) -> Self {
        self.links.push((text, href));
        self
    }

    /// A sentence that stands out.
    pub fn notice(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.sections.push(html! { p.notice.(tone.class()) { (shown(text.as_ref())) } });
        self
    }

    /// Names with values, as cards.
    pub fn figures(mut self, figures: impl IntoIterator<Item = (&'static str, Cell)>) -> Self {
        self.sections.push(html! {
            dl.figures {
                @for (name, value) in figures { div { dt { (name) } dd { (value.markup()) } } }
            }
        });
        self
    }

    /// Links one after the other, as the names of a path.
    pub fn trail(mut self, steps: impl IntoIterator<Item = Cell>) -> Self {
        self.sections.push(html! {
            nav.trail aria-label="Path" { @for step in steps { span.step { (step.markup()) } } }
        });
        self
    }

    /// A table.
    pub fn table(mut self, table: Table) -> Self {
        self.sections.push(table.markup());
        self
    }

    /// The document.
    pub fn render(&self) -> String {
        let refreshes = self.path.is_some() && !self.is_paused;
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    @if refreshes { meta http-equiv="refresh" content=(REFRESH_S); }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    title { (self.title) " · " (self.product) }
                    link rel="stylesheet" href=(STYLE_PATH);
                }
                body {
                    header {
                        p.product { (self.product) }
                        h1 { (self.title) }
                        nav aria-label="Pages" {
                            @for (text, href) in &self.links { a href=(href.as_str()) { (text) } }
                            @if let Some(path) = self.path { (self.switch(path)) }
                        }
                    }
                    main { @for section in &self.sections { (section) } }
                }
            }
        };
        document.into_string()
    }

    /// The link that stops the page from refreshing itself, or lets it.
    fn switch(&self, path: &str) -> Markup {
        match self.is_paused {
            true => html! { a.switch href=(Href::local(path, &[]).as_str()) { "Resume refresh" } },
            false => {
                html! { a.switch href=(Href::local(path, &[("refresh", "off")]).as_str()) { "Pause refresh" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ROWS_MAX;
    use crate::value::VALUE_CHARS_MAX;

    const HOSTILE: &str = "\"><script>alert('1')</script><img src=x onerror=alert(1)>&amp;";

    /// A page with a hostile value in every place that takes one.
    fn hostile() -> String {
        let mut table = Table::new("Rows", &["Text", "Link", "State", "Lines"]);
        let link = Href::local("/files", &[("path", HOSTILE)]);
        table.fill(
            1,
            [vec![
                Cell::text(HOSTILE),
                Cell::link(HOSTILE, Some(link.clone())),
                Cell::state(Tone::Bad, HOSTILE),
                Cell::lines([Cell::text(HOSTILE)]),
            ]],
        );
        let page = Page::new(HOSTILE, "Yeoul").notice(Tone::Warning, HOSTILE).link("Files", link.clone());
        page.figures([("Name", Cell::text(HOSTILE))])
            .trail([Cell::link(HOSTILE, Some(link))])
            .table(table)
            .render()
    }

    #[test]
    fn no_value_is_markup_wherever_it_stands() {
        let html = hostile();
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 9, "each place shows it: {html}");
        assert!(html.contains("/files?path=%22%3E%3Cscript"), "{html}");
    }

    #[test]
    fn a_page_needs_no_script_and_no_style_but_the_sheet() {
        let html = hostile();
        for forbidden in ["<script", "<style", " style=", "<iframe", "<object"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        let policy = html.find("default-src 'none'; style-src 'self'").expect("it carries its policy");
        assert!(policy < html.find("stylesheet").unwrap(), "which counts for what follows it");
        assert!(
            !crate::STYLE.contains("url(") && !crate::STYLE.contains("@import"),
            "nothing else is loaded"
        );
    }

    #[test]
    fn a_page_refreshes_itself_until_it_is_paused() {
        let page = |query| Page::new("t", "p").refreshing("/status", query).render();
        assert!(page("").contains("http-equiv=\"refresh\" content=\"10\""));
        assert!(page("").contains("href=\"/status?refresh=off\""));
        assert!(!page("refresh=off").contains("http-equiv=\"refresh\""));
        assert!(page("refresh=off").contains("href=\"/status\""));
        assert!(!Page::new("t", "p").render().contains("refresh"));
    }

    #[test]
    fn the_largest_table_is_a_page_of_bounded_bytes() {
        let long = "<".repeat(10 * VALUE_CHARS_MAX);
        let mut table = Table::new("Rows", &["A", "B", "C", "D"]);
        table.fill(usize::MAX, std::iter::repeat_with(|| (0..4).map(|_| Cell::text(&long)).collect()));
        let html = Page::new(&long, "p").table(table).render();
        // Each character takes four bytes as `&lt;`.
        assert!(html.len() < ROWS_MAX * 4 * (4 * VALUE_CHARS_MAX + 200), "{}", html.len());
    }
}
