#include "compiler/plan/preset.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files/config_table.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "compiler/plan/internal/plan_words.h"
#include "compiler/plan/internal/read_meshes.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kAxes{kDataAxis, kShardedDataAxis, kSpaceAxis,
                                                kTensorAxis};
constexpr std::array<std::string_view, 5> kDegrees{kDataAxis, kShardedDataAxis, kSpaceAxis,
                                                   kTensorAxis, kPipelineKey};
constexpr std::array<std::string_view, 13> kPresetKeys{
    kDataAxis,      kShardedDataAxis,  kSpaceAxis,       kTensorAxis, kPipelineKey,
    kZeroKey,       kMasterWeightsKey, kSequenceKey,     kChunksKey,  kStagesKey,
    kBoundariesKey, kStageLayersKey,   kStageHardwareKey};

bool is_degree(std::string_view key) {
  return std::find(kDegrees.begin(), kDegrees.end(), key) != kDegrees.end();
}

bool is_preset_key(std::string_view key) {
  return std::find(kPresetKeys.begin(), kPresetKeys.end(), key) != kPresetKeys.end();
}

bool may_rest_on(std::string_view key) {
  return key != kPipelineKey;
}

/// The value of a degree; nullptr when it is absent.
const Document* find_degree(ConfigTable& table, std::string_view key) {
  const std::string range = "1 to " + std::to_string(kMaxMeshRanks);
  return table.raw(std::string(key),
                   may_rest_on(key) ? ValueForm{"integer or text", "1", range + ", or `\"rest\"`"}
                                    : ValueForm{"integer", "1", range});
}

/// The size, or nullopt for "rest".
std::optional<int64_t> read_degree(std::string_view key, const Document& value,
                                   const std::string& origin) {
  const bool may_rest = may_rest_on(key);
  if (may_rest && value == Document(std::string(kRest))) return std::nullopt;
  if (!value.is_int() || value.as_int() < 1)
    refuse_config(origin + ": " + std::string(key) + " = " + to_json(value) + " is no degree",
                  std::string(key) + " is the number of parts" +
                      (may_rest ? ", or \"rest\" for what the number of ranks leaves" : ""),
                  "write " + std::string(key) + " = 2, or another integer from 1");
  return value.as_int();
}

/// Without the key the parameters are divided over kShardedDataAxis, where there is one.
int read_zero(ConfigTable& table, const Preset& preset, const std::string& origin) {
  constexpr int kParameters = 3;
  const Document* value = table.raw(std::string(kZeroKey), ValueForm{"integer", "0", "0 to 3"});
  if (!value) {
    const bool has_sharded = std::any_of(
        preset.axes.begin(), preset.axes.end(),
        [](const PresetAxis& axis) { return axis.name == kShardedDataAxis && axis.size != 1; });
    return has_sharded ? kParameters : 0;
  }
  for (const int64_t level : {0, 1, 2, 3})
    if (*value == Document(level)) return static_cast<int>(level);
  refuse_config(
      origin + ": zero = " + to_json(*value) + " is no level of zero",
      "1 divides the state of the optimizer over fsdp, or dp without it, 2 the sums of gradients, "
      "too, and 3 the parameters, too",
      "write zero = 1, zero = 2 or zero = 3");
}

/// The axes of `preset` as text: "dp=2,pp=4".
std::string degrees_text(const Preset& preset) {
  std::vector<std::string> parts;
  for (const PresetAxis& axis : preset.axes)
    parts.push_back(std::string(axis.name) + "=" +
                    (axis.size ? std::to_string(*axis.size) : std::string(kRest)));
  if (preset.stages > 1)
    parts.insert(parts.begin(), std::string(kPipelineKey) + "=" + std::to_string(preset.stages));
  return join(parts, ",");
}

void refuse_meshes(const Document& document, const std::string& origin) {
  for (const std::string_view key : {"mesh", "meshes", "shardings", "fingerprint"})
    if (document.find(key))
      refuse_config(origin + " has degrees such as dp, and '" + std::string(key) + "'",
                    "degrees stand for the meshes and marks of the whole plan",
                    "remove the degrees, or '" + std::string(key) + "'");
}

/// A number where the text is one: "8", "3.25".
Document value_of(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr size_t kMaxDigits = 9;  // digits of an integer
  const auto are_digits = [&](std::string_view part) {
    return !part.empty() && part.size() <= kMaxDigits &&
           part.find_first_not_of(kDigits) == std::string_view::npos;
  };
  if (text == "true" || text == "false") return Document(text == "true");
  const size_t point = text.find('.');
  if (are_digits(text)) return Document(int64_t{std::stoi(std::string(text))});
  if (point != std::string_view::npos && are_digits(text.substr(0, point)) &&
      are_digits(text.substr(point + 1)))
    return Document(std::stod(std::string(text)));
  return Document(std::string(text));
}

/// The items of a list, of which a text may have several: "blocks.1+blocks.5".
std::vector<std::string> read_items(ConfigTable& table, std::string_view key) {
  std::vector<std::string> items;
  for (const std::string& text : table.texts(std::string(key), {}))
    for (const std::string& item : split_text(text, '+'))
      items.emplace_back(trim(std::string_view(item)));
  return items;
}

/// "equal", a list of numbers, or a text of them with + between.
void read_stage_layers(ConfigTable& table, const std::string& origin, Preset& preset) {
  const std::string key(kStageLayersKey);
  const Document* value =
      table.raw(key, ValueForm{"text or list of integers", "", "`equal`, or numbers from 0"});
  if (!value) return;
  const auto refuse = [&](const std::string& item) {
    refuse_config(origin + ": " + key + " has " + item,
                  "it is the number of repeated layers of each stage, or equal",
                  "write equal, or as in 5+6+6+5");
  };
  const auto add = [&](const Document& item) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() > kMaxMeshRanks) refuse(to_json(item));
    preset.stage_layers.push_back(item.as_int());
  };
  if (*value == Document("equal")) {
    preset.has_equal_layers = true;
  } else if (value->is_list()) {
    for (const Document& item : value->as_list()) add(item);
  } else if (value->is_string()) {
    for (const std::string& item : split_text(value->as_string(), '+'))
      add(value_of(trim(std::string_view(item))));
  } else {
    add(*value);
  }
  if (!preset.boundaries.empty())
    refuse_config(origin + " has " + key + " and " + std::string(kBoundariesKey),
                  "both say where stages end", "remove one of them");
}

std::vector<StageHardware> read_hardware(ConfigTable& table, const std::string& origin) {
  std::vector<StageHardware> list;
  for (const std::string& item : read_items(table, kStageHardwareKey)) {
    const size_t colon = item.find(':');
    StageHardware hardware{std::string(trim(std::string_view(item).substr(0, colon))),
                           colon == std::string::npos
                               ? ""
                               : std::string(trim(std::string_view(item).substr(colon + 1)))};
    if (hardware.name.empty() || hardware.hardware.empty())
      refuse_config(
          origin + ": " + std::string(kStageHardwareKey) + " has '" + item + "'",
          "it takes the name of an op or a layer, a colon, and a kind or a type of device",
          "write it as in blocks.0:gpu or head:v100-16g, with + between several");
    list.push_back(std::move(hardware));
  }
  return list;
}

void check_axes(const Preset& preset, const std::string& origin) {
  const auto rests = std::count_if(preset.axes.begin(), preset.axes.end(),
                                   [](const PresetAxis& axis) { return !axis.size; });
  if (rests > 1)
    refuse_config(origin + " has several axes of the size \"rest\"",
                  "the number of ranks, divided by all other degrees, is the size of one axis",
                  "give the sizes of the others");
  int64_t ranks = 1;
  const auto multiply = [&](int64_t degree) {
    if (degree > kMaxMeshRanks / ranks)
      refuse_config(origin + " has more than " + std::to_string(kMaxMeshRanks) + " ranks",
                    "they are the product of the degrees, and this is the limit",
                    "use smaller degrees");
    ranks *= degree;
  };
  multiply(preset.stages);
  for (const PresetAxis& axis : preset.axes) multiply(axis.size.value_or(1));
}

/// The keys that are no degrees and have one value.
std::string decisions_text(const Document& document, const Preset& preset) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : document.as_table()) {
    const bool is_listed =
        key == kBoundariesKey || key == kStageHardwareKey || key == kStageLayersKey;
    if (is_degree(key) || is_listed || value.is_table() || value.is_list()) continue;
    parts.push_back(key + "=" + (value.is_string() ? value.as_string() : to_json(value)));
  }
  if (!preset.boundaries.empty())
    parts.push_back(std::string(kBoundariesKey) + "=" + join(preset.boundaries, "+"));
  if (preset.has_equal_layers) parts.push_back(std::string(kStageLayersKey) + "=equal");
  if (!preset.stage_layers.empty()) {
    std::vector<std::string> layers;
    for (const int64_t count : preset.stage_layers) layers.push_back(std::to_string(count));
    parts.push_back(std::string(kStageLayersKey) + "=" + join(layers, "+"));
  }
  if (!preset.hardware.empty())
    parts.push_back(std::string(kStageHardwareKey) + "=" + to_text(preset.hardware));
  return join(parts, ",");
}

/// The table of the keys that are no degrees. A pipeline has several micro-batches.
Document decisions_of(const Document& document, Preset& preset) {
  Document decisions{Document::Table{}};
  for (const auto& [key, value] : document.as_table())
    if (!is_preset_key(key)) decisions[key] = value;
  preset.chooses_micro_batches = preset.stages > 1 && !decisions.find("micro_batches");
  if (preset.chooses_micro_batches) decisions["micro_batches"] = 2 * preset.stages;
  return decisions;
}

/// Refuses the keys of other systems with the whole preset as it is written here.
void refuse_foreign_items(const std::vector<std::pair<std::string, std::string>>& items,
                          const std::string& origin) {
  for (const auto& [key, value] : items)
    if (const std::string item = preset_item(key, value); !item.empty())
      refuse_config(origin + ": unknown key '" + key + "'", "'" + key + "' is " + item + " here",
                    "write " + preset_items(items));
}

}  // namespace

std::string preset_of_words(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<std::pair<std::string, std::string>> items;
  for (const std::string& part : split_text(text, ',')) {
    const std::string word(trim(std::string_view(part)));
    const bool is_whole = is_degree(word) || !preset_item(word, "4").empty();
    const size_t digits = is_whole ? std::string::npos : word.find_first_of(kDigits);
    const std::string key = word.substr(0, digits);
    if ((!is_degree(key) && preset_item(key, "4").empty()) ||
        (digits != std::string::npos &&
         word.find_first_not_of(kDigits, digits) != std::string::npos))
      return "";
    items.emplace_back(key, digits == std::string::npos ? "4" : word.substr(digits));
  }
  return preset_items(items);
}

std::string to_text(const std::vector<StageHardware>& list) {
  std::vector<std::string> items;
  for (const StageHardware& each : list) items.push_back(each.name + ":" + each.hardware);
  return join(items, "+");
}

bool is_preset(std::string_view text) {
  return text.find('=') != std::string_view::npos && !path_exists(text);
}

std::span<const std::string_view> degree_keys() {
  return kDegrees;
}

bool has_degrees(const Document& document) {
  return document.is_table() &&
         std::any_of(document.as_table().begin(), document.as_table().end(),
                     [](const auto& entry) { return is_preset_key(entry.first); });
}

Preset parse_preset(std::string_view text) {
  const std::string origin = "preset '" + std::string(text) + "'";
  Document document{Document::Table{}};
  std::vector<std::pair<std::string, std::string>> items;
  for (const std::string& item : split_text(text, ',')) {
    const size_t equals = item.find('=');
    const std::string key(trim(std::string_view(item).substr(0, equals)));
    if (equals == std::string::npos || key.empty())
      refuse_config(origin + ": '" + item + "' is not key=value",
                    "a preset lists degrees and keys of plans between commas",
                    "write it as dp=2,tp=2 or pp=4,micro_batches=8,schedule=zb-h1");
    if (document.find(key))
      refuse_config(origin + " has '" + key + "' twice", "a key has one value",
                    "keep one of the two");
    const std::string value(trim(std::string_view(item).substr(equals + 1)));
    document[key] = value_of(value);
    items.emplace_back(key, value);
  }
  refuse_foreign_items(items, origin);
  Preset preset = parse_preset(document, origin);
  preset.text = std::string(text);
  return preset;
}

Preset parse_preset(const Document& document, const std::string& origin,
                    std::vector<ReadKey>* keys) {
  Preset preset;
  refuse_meshes(document, origin);
  ConfigTable table(&document, "", origin, keys);
  for (const std::string_view axis : kAxes)
    if (const Document* size = find_degree(table, axis))
      preset.axes.push_back({axis, read_degree(axis, *size, origin)});
  if (const Document* stages = find_degree(table, kPipelineKey))
    preset.stages = *read_degree(kPipelineKey, *stages, origin);
  preset.zero = read_zero(table, preset, origin);
  preset.master_weights =
      table.choice(std::string(kMasterWeightsKey), "divided", {"whole", "divided"}) == "whole"
          ? MasterWeights::kWhole
          : MasterWeights::kDivided;
  preset.sequence_parallel = table.boolean(std::string(kSequenceKey), false);
  preset.chunks = table.integer(std::string(kChunksKey), 0, 0, kMaxMeshRanks);
  table.choice(std::string(kStagesKey), "any", {"any", "equal"});
  preset.boundaries = read_items(table, kBoundariesKey);
  read_stage_layers(table, origin, preset);
  preset.hardware = read_hardware(table, origin);
  check_axes(preset, origin);
  preset.decisions =
      parse_plan(decisions_of(document, preset), origin, {.other_keys = kPresetKeys});
  preset.text = degrees_text(preset);
  preset.decisions_text = decisions_text(document, preset);
  return preset;
}

}  // namespace tessera
