// Pieces of an HTML page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The text with & < > " ' as entities; control characters, which XML lacks, become spaces.
std::string escaped(std::string_view text);

/// The same, with the ends of lines as they are.
std::string escaped_lines(std::string_view text);

/// A table. Cells are escaped; the cells of a column in `numbers` are aligned right.
class HtmlTable {
 public:
  ///   alignment  a letter per column: 'l' left, 'r' right, 'w' left and wide, for sentences
  HtmlTable(std::vector<std::string> header, std::string alignment);
  ///   requires  one cell per column
  void add(const std::vector<std::string>& cells);
  std::string text() const;

 private:
  std::string row(const std::vector<std::string>& cells, std::string_view tag) const;

  std::string alignment_;
  std::string text_;
};

/// "<section><h3>TITLE</h3>BODY</section>"; "" without a body.
std::string section(std::string_view title, const std::string& body);
/// A paragraph of text.
std::string paragraph(std::string_view text);
/// A note in smaller letters.
std::string note(std::string_view text);

/// The width of the drawings of a report.
/// The style sheet makes it at least kMinDrawingPixels wide,
/// so that its letters of 13 units have 11 pixels.
inline constexpr double kDrawingWidth = 740;
inline constexpr double kMinDrawingPixels = 640;

/// A drawing of `width` x `height` units, which is as wide as its place.
///   label  what it shows, for readers who do not see it
std::string drawing(double width, double height, std::string_view label, const std::string& body);
/// A drawing whose units are pixels.
std::string sized_drawing(double width, double height, std::string_view label,
                          const std::string& body);

/// A box of a drawing.
struct DrawnBox {
  double x = 0, y = 0, width = 0, height = 0;
  std::string style;  // a class of the style sheet: "forward"
  std::string title;  // shown where the reader points; "" for none
};
std::string drawn(const DrawnBox& box);
///   anchor  "start", "middle" or "end"
///   style   a class of the style sheet: "label" on a box; "" on the page
std::string drawn_text(double x, double y, std::string_view text, std::string_view anchor = "start",
                       std::string_view style = "");

/// Little boxes of the styles with their names.
struct LegendEntry {
  std::string style;
  std::string name;
};
std::string legend(const std::vector<LegendEntry>& entries);

}  // namespace tessera
