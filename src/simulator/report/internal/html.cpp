#include "simulator/report/internal/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tessera {

std::string escaped(std::string_view text) {
  std::string made;
  for (const char letter : text) {
    switch (letter) {
      case '&': made += "&amp;"; break;
      case '<': made += "&lt;"; break;
      case '>': made += "&gt;"; break;
      case '"': made += "&quot;"; break;
      case '\'': made += "&#39;"; break;
      default: made += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f ? ' ' : letter;
    }
  }
  return made;
}

std::string escaped_lines(std::string_view text) {
  std::string made;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    made += escaped(text.substr(begin, end - begin));
    if (end < text.size()) made += '\n';
    begin = end + 1;
  }
  return made;
}

namespace {

std::string_view class_of(char alignment) {
  return alignment == 'r' ? " class=\"number\"" : alignment == 'w' ? " class=\"words\"" : "";
}

}  // namespace

HtmlTable::HtmlTable(std::vector<std::string> header, std::string alignment)
    : alignment_(std::move(alignment)), text_("<thead>") {
  text_ += row(header, "th") + "</thead><tbody>\n";
}

std::string HtmlTable::row(const std::vector<std::string>& cells, std::string_view tag) const {
  ensure(cells.size() == alignment_.size(), "a row has a cell for each column");
  std::string text = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    text += fmt::format("<{0}{1}>{2}</{0}>", tag, class_of(alignment_[i]), escaped(cells[i]));
  return text + "</tr>\n";
}

void HtmlTable::add(const std::vector<std::string>& cells) {
  text_ += row(cells, "td");
}

std::string HtmlTable::text() const {
  return "<div class=\"wide\"><table>" + text_ + "</tbody></table></div>\n";
}

std::string section(std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section><h3>{}</h3>\n{}</section>\n", escaped(title), body);
}

std::string paragraph(std::string_view text) {
  return "<p>" + escaped(text) + "</p>\n";
}

std::string note(std::string_view text) {
  return "<p class=\"note\">" + escaped(text) + "</p>\n";
}

std::string drawing(double width, double height, std::string_view label, const std::string& body) {
  return fmt::format(
      "<div class=\"wide\"><svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n{}</svg></div>\n",
      width, height, escaped(label), body);
}

std::string sized_drawing(double width, double height, std::string_view label,
                          const std::string& body) {
  return fmt::format(
      "<div class=\"wide\"><svg style=\"width:{0:.0f}px;min-width:{0:.0f}px\" viewBox=\"0 0 "
      "{0:.0f} "
      "{1:.0f}\" role=\"img\" aria-label=\"{2}\">\n{3}</svg></div>\n",
      width, height, escaped(label), body);
}

std::string drawn(const DrawnBox& box) {
  const std::string place =
      fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"",
                  escaped(box.style), box.x, box.y, box.width, box.height);
  if (box.title.empty()) return place + " />\n";
  return place + "><title>" + escaped(box.title) + "</title></rect>\n";
}

std::string drawn_text(double x, double y, std::string_view text, std::string_view anchor,
                       std::string_view style) {
  return fmt::format("<text{} x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\">{}</text>\n",
                     style.empty() ? "" : fmt::format(" class=\"{}\"", style), x, y, anchor,
                     escaped(text));
}

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string text = "<p class=\"legend\">";
  for (const LegendEntry& entry : entries)
    text += fmt::format("<span><i class=\"{}\"></i>{}</span> ", escaped(entry.style),
                        escaped(entry.name));
  return text + "</p>\n";
}

}  // namespace tessera
