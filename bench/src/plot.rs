//! Two kinds of picture, written as SVG by hand: bars with a bound, and curves over time. Colours and text do for a
//! light and for a dark page.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 300.0;
const ROW: f64 = 30.0;
const TOP: f64 = 44.0;
const CURVE_HEIGHT: f64 = 220.0;

const HOLDS: &str = "#2f8f5b";
const SHORT: &str = "#c8502f";
const PLAIN: &str = "#4a7fb5";
const FAINT: &str = "#888888";

/// One bar, with the smallest and the largest of its runs.
#[derive(Debug, Clone)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub min: f64,
    pub max: f64,
    pub text: String,
    /// `None` where nothing was promised.
    pub holds: Option<bool>,
}

/// Lying bars from nought, and where they should end.
#[derive(Debug, Clone)]
pub struct Bars {
    pub title: String,
    pub bars: Vec<Bar>,
    /// A line across all bars, and what it says.
    pub line: Option<(f64, String)>,
}

/// A named sequence of points, in the order of x.
#[derive(Debug, Clone)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Curves over a shared x.
#[derive(Debug, Clone)]
pub struct Curves {
    pub title: String,
    pub x_name: String,
    pub curves: Vec<Curve>,
}

impl Bars {
    pub fn svg(&self) -> String {
        let height = TOP + ROW * self.bars.len() as f64 + 28.0;
        let line = self.line.as_ref().map_or(0.0, |(at, _)| *at);
        let largest = self.bars.iter().map(|bar| bar.max.max(bar.value)).fold(line, f64::max);
        let scale = (WIDTH - LABEL_WIDTH - 130.0) / if largest > 0.0 { largest } else { 1.0 };
        let mut svg = Svg::new(&self.title, height);
        for (index, bar) in self.bars.iter().enumerate() {
            let (y, end) = (TOP + ROW * index as f64, LABEL_WIDTH + bar.value * scale);
            let colour = bar.holds.map_or(PLAIN, |holds| if holds { HOLDS } else { SHORT });
            svg.text((LABEL_WIDTH - 8.0, y + 15.0), "end", &bar.label);
            svg.rect((LABEL_WIDTH, y + 3.0), (bar.value * scale, 16.0), colour);
            svg.line(
                (LABEL_WIDTH + bar.min * scale, y + 11.0),
                (LABEL_WIDTH + bar.max * scale, y + 11.0),
                FAINT,
            );
            svg.text((end.max(LABEL_WIDTH + bar.max * scale) + 8.0, y + 15.0), "start", &bar.text);
        }
        if let Some((at, says)) = &self.line {
            let (x, bottom) = (LABEL_WIDTH + at * scale, height - 22.0);
            svg.line((x, TOP - 4.0), (x, bottom), FAINT);
            svg.text((x, bottom + 14.0), "middle", says);
        }
        svg.end()
    }
}

impl Curves {
    /// From nought upwards; the y axis is labelled with its largest value only.
    pub fn svg(&self) -> String {
        let (left, right, bottom) = (70.0, WIDTH - 20.0, TOP + CURVE_HEIGHT);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let last = points().map(|point| point.0).fold(1e-9, f64::max);
        let largest = points().map(|point| point.1).fold(1e-9, f64::max);
        let mut svg = Svg::new(&self.title, bottom + 44.0);
        svg.line((left, TOP), (left, bottom), FAINT);
        svg.line((left, bottom), (right, bottom), FAINT);
        svg.text((left - 6.0, TOP + 5.0), "end", &short(largest));
        svg.text((left - 6.0, bottom), "end", "0");
        svg.text((right, bottom + 16.0), "end", &format!("{} {}", short(last), self.x_name));
        for (index, (curve, colour)) in
            self.curves.iter().zip([PLAIN, SHORT, HOLDS].iter().cycle()).enumerate()
        {
            let place = |point: &(f64, f64)| {
                let x = left + point.0 / last * (right - left);
                format!("{x:.1},{:.1}", bottom - point.1 / largest * CURVE_HEIGHT)
            };
            let path: Vec<String> = curve.points.iter().map(place).collect();
            svg.polyline(&path.join(" "), colour);
            let x = left + 130.0 * index as f64;
            svg.rect((x, bottom + 26.0), (12.0, 4.0), colour);
            svg.text((x + 18.0, bottom + 32.0), "start", &curve.name);
        }
        svg.end()
    }
}

/// A document on its way.
struct Svg(String);

impl Svg {
    fn new(title: &str, height: f64) -> Self {
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             font-family=\"sans-serif\" font-size=\"13\" fill=\"{FAINT}\">\n"
        ));
        svg.put(format_args!("<title>{}</title>", escaped(title)));
        svg.text((8.0, 20.0), "start", title);
        svg
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    fn polyline(&mut self, points: &str, colour: &str) {
        self.put(format_args!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"/>"));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("a string takes whatever is written");
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64, holds: Option<bool>) -> Bar {
        Bar { label: label.to_owned(), value, min: value, max: value, text: format!("{value}"), holds }
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_say_whether_they_hold() {
        let bars = [bar("a & b", 1.0, Some(true)), bar("c", 0.5, Some(false)), bar("d", 0.0, None)];
        let svg = Bars { title: "growth".into(), bars: bars.into(), line: Some((0.8, "≥ 0.8".into())) }.svg();
        assert!(svg.contains("a &amp; b") && svg.contains("≥ 0.8"), "{svg}");
        for (width, colour) in [("330.0", HOLDS), ("165.0", SHORT), ("0.0", PLAIN)] {
            let rect = format!("width=\"{width}\" height=\"16.0\" fill=\"{colour}\"");
            assert!(svg.contains(&rect), "no {rect} in {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn nothing_to_draw_is_still_a_picture() {
        let svg = Bars { title: String::new(), bars: Vec::new(), line: None }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        let svg = Curves { title: String::new(), x_name: "s".into(), curves: Vec::new() }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn curve_fills_its_field() {
        let curve = Curve { name: "p99".into(), points: vec![(0.0, 0.0), (5.0, 20.0), (10.0, 10.0)] };
        let svg = Curves { title: "held".into(), x_name: "s".into(), curves: vec![curve] }.svg();
        assert!(svg.contains("points=\"70.0,264.0 405.0,44.0 740.0,154.0\""), "{svg}");
    }
}
