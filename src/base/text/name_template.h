// A text that its copies share, with a number for each mark in it.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// "y #2" as the pattern "y #?" and the number 2, where the mark is kMark: names that differ in
/// the number of a micro-batch share one pattern. It reads as a std::string, which is made when it
/// is asked for.
///
///   memory   three words, and one pattern for all copies
///   threads  copies may be read and destroyed in different threads
class NameTemplate {
 public:
  static constexpr char kMark = '\x01';

  NameTemplate() = default;
  NameTemplate(std::string pattern);  // NOLINT: a text without marks is that text
  NameTemplate(std::string_view pattern) : NameTemplate(std::string(pattern)) {}  // NOLINT
  NameTemplate(const char* pattern) : NameTemplate(std::string(pattern)) {}       // NOLINT

  const std::string& pattern() const;
  /// The pattern with `number` for each mark; without a number with the marks.
  std::string text() const;
  operator std::string() const { return text(); }
  /// The pattern with another text for each mark.
  std::string with(std::string_view number) const;
  /// The same pattern with a number.
  NameTemplate numbered(int number) const;

  bool empty() const { return pattern().empty(); }
  /// Appends to the pattern.
  NameTemplate& operator+=(std::string_view suffix);

  friend bool operator==(const NameTemplate& a, const NameTemplate& b) {
    return (a.pattern_ == b.pattern_ && a.number_ == b.number_) || a.text() == b.text();
  }
  friend bool operator==(const NameTemplate& a, std::string_view b) { return a.text() == b; }
  friend bool operator==(const NameTemplate& a, const std::string& b) { return a.text() == b; }
  friend bool operator==(const NameTemplate& a, const char* b) { return a.text() == b; }
  friend std::string operator+(const NameTemplate& a, std::string_view b);
  friend std::string operator+(std::string a, const NameTemplate& b) { return a += b.text(); }
  friend std::string operator+(const char* a, const NameTemplate& b) { return a + b.text(); }
  friend std::ostream& operator<<(std::ostream& out, const NameTemplate& text);

 private:
  std::shared_ptr<const std::string> pattern_;  // nullptr: empty
  int number_ = -1;                             // -1: none
};

/// A NameTemplate with another number, made without a copy of it.
///
///   requires  the text outlives it
class NameTemplateView {
 public:
  NameTemplateView(const NameTemplate& text, int number) : text_(&text), number_(number) {}

  const std::string& pattern() const { return text_->pattern(); }
  bool empty() const { return text_->empty(); }
  std::string text() const { return text_->numbered(number_).text(); }
  operator std::string() const { return text(); }
  std::string with(std::string_view number) const { return text_->with(number); }

  friend bool operator==(const NameTemplateView& a, const NameTemplateView& b) {
    return a.text() == b.text();
  }
  friend bool operator==(const NameTemplateView& a, const NameTemplate& b) {
    return a.text() == b.text();
  }
  friend bool operator==(const NameTemplateView& a, std::string_view b) { return a.text() == b; }
  friend bool operator==(const NameTemplateView& a, const std::string& b) { return a.text() == b; }
  friend bool operator==(const NameTemplateView& a, const char* b) { return a.text() == b; }
  friend std::string operator+(const NameTemplateView& a, std::string_view b) {
    return a.text().append(b);
  }
  friend std::string operator+(std::string a, const NameTemplateView& b) { return a += b.text(); }
  friend std::string operator+(const char* a, const NameTemplateView& b) { return a + b.text(); }
  friend std::ostream& operator<<(std::ostream& out, const NameTemplateView& text);

 private:
  const NameTemplate* text_;
  int number_;
};

}  // namespace tessera
