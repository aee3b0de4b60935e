// The keys of a table of settings. Each is declared once, with what it sets, its range and what the
// reference says of it; reading, writing and the reference follow from the declaration.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/config_table.h"

namespace tessera {

/// A key of a table that sets a part of a Config.
template <typename Config>
struct SettingKey {
  template <typename T>
  using At = std::function<T&(Config&)>;
  /// A value that is a word in the file, such as one of an enum.
  struct Word {
    std::function<std::string(const Config&)> get;
    std::function<void(Config&, const std::string&)> set;
  };

  ConfigKey key;
  /// The part that it sets: a pointer to a member, or a function that returns a reference.
  std::variant<At<int64_t>, At<uint64_t>, At<int>, At<double>, At<bool>, At<std::string>,
               At<std::vector<std::string>>, Word>
      value;
  double smallest = 0, largest = 0;        // of a number
  std::vector<std::string> choices = {};   // of a word or a text; empty: any
  std::span<const KeyAlias> aliases = {};  // of the choices
  /// Is it written? It has no meaning for some configurations, such as the momentum of another
  /// optimizer. Unset: always.
  std::function<bool(const Config&)> is_written = {};
};

/// A word for a member of an enum.  to_text  of the enum
template <typename Config, typename Enum>
typename SettingKey<Config>::Word word_for(std::function<Enum&(Config&)> at,
                                           std::vector<Enum> values) {
  return {[at](const Config& config) {
            Config copy = config;
            return std::string(to_text(at(copy)));
          },
          [at, values = std::move(values)](Config& config, const std::string& word) {
            for (const Enum value : values)
              if (to_text(value) == word) at(config) = value;
          }};
}

/// Reads a key; the value in `config` is the default.
///   throws  UserError (78) as ConfigTable
template <typename Config>
void read_key(ConfigTable& table, const SettingKey<Config>& key, Config& config) {
  std::visit(
      [&]<typename Value>(const Value& value) {
        if constexpr (std::same_as<Value, typename SettingKey<Config>::Word>) {
          value.set(config, table.choice(key.key, value.get(config), key.choices, {}, key.aliases));
        } else {
          auto& place = value(config);
          using T = std::remove_reference_t<decltype(place)>;
          if constexpr (std::same_as<T, bool>)
            place = table.boolean(key.key, place);
          else if constexpr (std::same_as<T, double>)
            place = table.number(key.key, place, key.smallest, key.largest);
          else if constexpr (std::integral<T>)
            place = static_cast<T>(table.integer(key.key, static_cast<int64_t>(place),
                                                 static_cast<int64_t>(key.smallest),
                                                 static_cast<int64_t>(key.largest)));
          else if constexpr (std::same_as<T, std::string>)
            place = key.choices.empty() ? table.text(key.key, place)
                                        : table.choice(key.key, place, key.choices);
          else
            place = table.texts(key.key, place);
        }
      },
      key.value);
}

/// Writes a key that `config` has; a reader of the document gets the same value.
template <typename Config>
void write_key(const SettingKey<Config>& key, Config config, Document& document) {
  if (key.is_written && !key.is_written(config)) return;
  document[key.key.name] = std::visit(
      [&]<typename Value>(const Value& value) -> Document {
        if constexpr (std::same_as<Value, typename SettingKey<Config>::Word>) {
          return value.get(config);
        } else {
          auto& place = value(config);
          using T = std::remove_reference_t<decltype(place)>;
          if constexpr (std::same_as<T, std::vector<std::string>>)
            return Document::List(place.begin(), place.end());
          else if constexpr (std::integral<T> && !std::same_as<T, bool>)
            return static_cast<int64_t>(place);
          else
            return place;
        }
      },
      key.value);
}

}  // namespace tessera
