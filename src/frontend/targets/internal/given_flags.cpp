#include "frontend/targets/internal/given_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files/document.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int64_t kMaxNumber = int64_t{1} << 40;

/// Words as a shell reads them: quotes, and backslashes before ends of lines.
std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_in_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (is_in_word) words.push_back(std::move(word));
    word.clear();
    is_in_word = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[++i] == '\n') {
        end_word();
      } else {
        word += text[i];
        is_in_word = true;
      }
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
    } else if (c == '#' && !is_in_word) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else {
      word += c;
      is_in_word = true;
    }
  }
  if (quote != 0)
    refuse_config("the flags of --current have a quote that does not end",
                  fmt::format("the last word begins with '{}'", excerpt(word, 40)),
                  "close the quote");
  end_word();
  return words;
}

std::string flag_name(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::ranges::replace(name, '-', '_');
  return name;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

}  // namespace

GivenFlags::GivenFlags(const CurrentText& current) {
  if (current.file.ends_with(".toml")) {
    read_document("", parse_toml(current.text, current.file));
  } else if (current.file.ends_with(".json")) {
    read_document("", parse_json(current.text, current.file));
  } else if (current.file.ends_with(".py")) {
    read_python(current.text);
  } else {
    are_words_ = true;
    read_words(current.text);
  }
}

void GivenFlags::read_words(std::string_view text) {
  std::string name;
  for (const std::string& word : shell_words(text)) {
    if (word.starts_with("activation-checkpoint:") || word.starts_with("activation_checkpoint:")) {
      values_["activation_checkpoint"] = word.substr(word.find(':') + 1);
      name.clear();
    } else if (word.starts_with("--") && word.size() > 2) {
      const size_t equals = word.find('=');
      name = flag_name(word.substr(0, equals));
      values_[name] = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (equals != std::string::npos) name.clear();
    } else if (!name.empty()) {
      std::string& value = values_[name];
      value += (value.empty() ? "" : " ") + word;
    }
  }
}

void GivenFlags::read_document(const std::string& prefix, const Document& document) {
  const auto text_of = [](const Document& value) -> std::string {
    if (value.is_string()) return value.as_string();
    if (value.is_null()) return "none";
    return to_json(value);
  };
  if (!document.is_table())
    refuse_config("the file of --current is no table", "it is " + kind_of(document),
                  "give the file of a configuration of torchtitan");
  for (const auto& [key, value] : document.as_table()) {
    const std::string name = prefix + key;
    if (value.is_table()) {
      values_[name] = "given";
      read_document(name + ".", value);
    } else {
      values_[name] = text_of(value);
    }
  }
}

void GivenFlags::read_python(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    if (text[i] == '"' || text[i] == '\'') {
      const std::string_view quote =
          text.substr(i, 3) == std::string(3, text[i]) ? text.substr(i, 3) : text.substr(i, 1);
      const size_t end = text.find(quote, i + quote.size());
      if (end == std::string_view::npos) return;
      i = end + quote.size() - 1;
      continue;
    }
    if (!is_name_char(text[i])) continue;
    size_t end = i;
    while (end < text.size() && is_name_char(text[end])) ++end;
    std::string name(text.substr(i, end - i));
    i = end - 1;
    size_t at = text.find_first_not_of(" \t", end);
    if (at == std::string_view::npos || text[at] != '=' || text.substr(at, 2) == "==") continue;
    at = text.find_first_not_of(" \t", at + 1);
    if (at == std::string_view::npos) continue;
    name = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
    size_t stop = at;
    if (text[at] == '[') {  // a list, to its closing bracket
      int depth = 0;
      do {
        depth += text[stop] == '[' ? 1 : text[stop] == ']' ? -1 : 0;
        ++stop;
      } while (stop < text.size() && depth > 0);
    } else if (text[at] == '"' || text[at] == '\'') {
      stop = std::min(text.find(text[at], at + 1), text.size() - 1) + 1;
    } else {
      while (stop < text.size() && (is_name_char(text[stop]) || text[stop] == '-')) ++stop;
    }
    std::string value(text.substr(at, stop - at));
    if (value.size() >= 2 && (value[0] == '"' || value[0] == '\''))
      value = value.substr(1, value.size() - 2);
    if (value == "True") value = "true";
    if (value == "False") value = "false";
    if (value == "None") value = "none";
    values_[name] = value;
    i = std::max(i, stop - 1);
  }
}

bool GivenFlags::is_set(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && found->second != "false" && found->second != "none";
}

std::optional<std::string> GivenFlags::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second == "none") return std::nullopt;
  return found->second;
}

std::optional<int64_t> GivenFlags::number(std::string_view name, int64_t min) const {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error == std::errc{} && end == value->data() + value->size() && number >= min &&
      number <= kMaxNumber)
    return number;
  refuse_config(fmt::format("{} of --current has the value '{}'", shown(name), excerpt(*value, 40)),
                fmt::format("it is a whole number from {} to 2^40", min),
                value->starts_with("$") ? "write the number in place of the variable of the shell"
                                        : "correct the number");
}

std::string GivenFlags::shown(std::string_view name) const {
  if (!are_words_) return std::string(name);
  std::string text(name);
  // The sections of torchtitan have names with "_" in its own documents.
  if (text.find('.') == std::string::npos) std::ranges::replace(text, '_', '-');
  return "--" + text;
}

int data_ranks(int ranks, int64_t others) {
  if (others <= ranks && ranks % others == 0) return static_cast<int>(ranks / others);
  refuse_config(fmt::format("the current setting needs a multiple of {} devices", others),
                fmt::format("its degrees without data parallelism make {}, and the cluster has {}",
                            others, ranks),
                "give the cluster on which it runs, or correct its degrees");
}

void check_size(const GivenFlags& flags, std::string_view name, int64_t of_model,
                std::string_view what) {
  const std::optional<int64_t> given = flags.number(name);
  if (!given || *given == of_model) return;
  refuse_config(fmt::format("{} of --current is {}", flags.shown(name), *given),
                fmt::format("the model has {} {}", of_model, what),
                "give the model that the current run trains, or correct the flag");
}

}  // namespace tessera
