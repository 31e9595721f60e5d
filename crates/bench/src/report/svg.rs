//! Bar charts as inline SVG: drawn in the page's own colours, readable without scripts.

use std::fmt::Write;

/// Widths and heights in pixels, of a chart and of its parts.
const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 190.0;
const VALUE_WIDTH: f64 = 170.0;
const BAR_HEIGHT: f64 = 16.0;
const BAR_GAP: f64 = 3.0;
const GROUP_GAP: f64 = 10.0;

/// The number of colours of the page.
const SERIES: usize = 6;

/// A horizontal bar.
pub(super) struct Bar {
    /// The contestant's number, which decides the colour.
    pub series: usize,
    /// Text before the bar; only the first bar of a group needs one.
    pub label: String,
    /// The length; `None` for a bar that could not be measured.
    pub value: Option<f64>,
    /// Text after the bar.
    pub text: String,
}

/// A chart of groups of horizontal bars.
pub(super) struct BarChart {
    /// Its title.
    pub title: String,
    /// Groups of bars that belong together.
    pub groups: Vec<Vec<Bar>>,
    /// Lines across all bars, with their labels: a limit, or a ratio of 1.
    pub marks: Vec<(f64, String)>,
    /// The value at which a logarithmic scale starts; `None` for a linear one.
    pub logarithmic_from: Option<f64>,
}

impl BarChart {
    /// The chart with its title as a `<figure>`.
    pub fn to_html(&self) -> String {
        let bars: f64 = self.groups.iter().map(|group| group.len() as f64).sum();
        let top = if self.marks.is_empty() { 4.0 } else { 22.0 };
        let height = top + bars * (BAR_HEIGHT + BAR_GAP) + self.groups.len() as f64 * GROUP_GAP;
        let values =
            self.groups.iter().flatten().filter_map(|bar| bar.value).chain(self.marks.iter().map(|m| m.0));
        let most = values.fold(0f64, f64::max);
        let mut svg = format!(
            "<figure><figcaption>{title}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">",
            title = escape(&self.title),
        );
        let mut y = top;
        for group in &self.groups {
            for bar in group {
                self.draw_bar(&mut svg, bar, y, most);
                y += BAR_HEIGHT + BAR_GAP;
            }
            y += GROUP_GAP;
        }
        for (value, text) in &self.marks {
            let x = LABEL_WIDTH + self.length(*value, most);
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{height:.0}\"/>\
                 <text class=\"value\" x=\"{x:.1}\" y=\"12\" text-anchor=\"middle\">{}</text>",
                top - 4.0,
                escape(text),
            );
        }
        svg.push_str("</svg></figure>\n");
        svg
    }

    fn draw_bar(&self, svg: &mut String, bar: &Bar, y: f64, most: f64) {
        let length = bar.value.map_or(0.0, |value| self.length(value, most));
        let (label, text) = (escape(&bar.label), escape(&bar.text));
        let middle = y + BAR_HEIGHT * 0.76;
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{label}</text>\
             <rect class=\"s{}\" x=\"{LABEL_WIDTH}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{middle:.1}\">{text}</text>",
            LABEL_WIDTH - 8.0,
            bar.series % SERIES,
            LABEL_WIDTH + length + 6.0,
        );
    }

    /// The length of a value in pixels.
    fn length(&self, value: f64, most: f64) -> f64 {
        let room = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
        let share = match self.logarithmic_from {
            Some(from) if most > from => (value.max(from) / from).ln() / (most / from).ln(),
            _ if most > 0.0 => value / most,
            _ => 0.0,
        };
        share.clamp(0.0, 1.0) * room
    }
}

/// Escapes text for HTML and SVG, for elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}
