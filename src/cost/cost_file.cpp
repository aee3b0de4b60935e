#include "cost/cost_file.h"

#include <cmath>
#include <limits>

#include "base/config_table.h"
#include "base/error.h"
#include "base/file.h"
#include "cost/quantity.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

/// The position of a table: its file, and its key in it.
struct Position {
  std::string file;
  std::string path;

  Position operator/(std::string_view key) const {
    return {file, path.empty() ? std::string(key) : path + "." + std::string(key)};
  }
};

enum class Least { kZero, kMoreThanZero };

/// Reads a quantity; an absent one keeps `target`.
void read(const Document* value, const Position& at, const UnitTable& units, Least least,
          double& target) {
  if (!value) return;
  const std::string found = to_json(*value);
  const std::optional<double> number =
      value->is_string() ? parse_quantity(value->as_string(), units) : std::nullopt;
  if (!number)
    refuse(at.file + ": " + at.path + " is " + found,
           "it is " + std::string(units.quantity) + ": a number and its unit, " + unit_names(units),
           "write it as \"" + std::string(units.example) + "\"");
  const bool is_in_range = least == Least::kZero ? *number >= 0 : *number > 0;
  if (!is_in_range || !std::isfinite(*number))
    refuse(at.file + ": " + at.path + " is " + found,
           "nothing takes a time that is infinite or less than 0",
           std::string("write a number ") + (least == Least::kZero ? "of at least 0" : "above 0"));
  target = *number;
}

void read_time(const Document* value, const Position& at, Seconds& target) {
  double seconds = target.value();
  read(value, at, time_units(), Least::kZero, seconds);
  target = Seconds(seconds);
}

void read_rate(const Document* value, const Position& at, const UnitTable& units, double& target) {
  read(value, at, units, Least::kMoreThanZero, target);
}

void read_rate(const Document* value, const Position& at, const UnitTable& units,
               std::optional<double>& target) {
  if (value) read_rate(value, at, units, target.emplace());
}

// ---- device ----

ClassRates read_class(ConfigTable table, const Position& at, ClassRates rates) {
  read_rate(table.raw("arithmetic"), at / "arithmetic", arithmetic_units(), rates.flops_per_second);
  read_rate(table.raw("memory"), at / "memory", byte_rate_units(), rates.bytes_per_second);
  for (const DTypeTraits& dtype : kDTypes)
    if (const Document* value = table.raw(std::string(dtype.text)))
      read_rate(value, at / dtype.text, arithmetic_units(), rates.flops_per_second_of[dtype.dtype]);
  table.finish();
  return rates;
}

void read_device(ConfigTable& table, const Position& at, DeviceCost& device) {
  read_rate(table.raw("arithmetic"), at / "arithmetic", arithmetic_units(),
            device.flops_per_second);
  read_rate(table.raw("memory"), at / "memory", byte_rate_units(), device.bytes_per_second);
  read_rate(table.raw("copies"), at / "copies", byte_rate_units(), device.copied_bytes_per_second);
  read_time(table.raw("launch"), at / "launch", device.launch);
  for (const OperationClassName& name : kOperationClasses)
    if (const std::string key(name.text); table.raw(key))
      device.classes[name.operation] =
          read_class(table.table(key), at / key, device.classes[name.operation]);
}

// ---- links ----

void read_latency_and_bandwidth(ConfigTable& table, const Position& at, LinkCost& link) {
  read_time(table.raw("latency"), at / "latency", link.latency);
  read_rate(table.raw("bandwidth"), at / "bandwidth", byte_rate_units(), link.bytes_per_second);
}

/// What a link of its own does not say is as between any two ranks.
LinkCost read_link(ConfigTable table, const Position& at, const LinkCost& any) {
  LinkCost link = any;
  read_latency_and_bandwidth(table, at, link);
  table.finish();
  return link;
}

std::pair<Rank, Rank> read_pair(const Document* ranks, const Position& at) {
  const auto is_rank = [](const Document& item) {
    return item.is_int() && item.as_int() >= 0 && item.as_int() <= std::numeric_limits<Rank>::max();
  };
  if (!ranks || !ranks->is_list() || ranks->as_list().size() != 2 ||
      !is_rank(ranks->as_list()[0]) || !is_rank(ranks->as_list()[1]) ||
      ranks->as_list()[0] == ranks->as_list()[1])
    refuse(at.file + ": " + at.path + " is not a link between two ranks",
           "its 'ranks' are the numbers of two ranks", "write ranks = [0, 1]");
  const auto a = static_cast<Rank>(ranks->as_list()[0].as_int());
  const auto b = static_cast<Rank>(ranks->as_list()[1].as_int());
  return std::minmax(a, b);
}

void read_pairs(const Document* list, const Position& at, LinkCosts& links) {
  if (!list) return;
  if (!list->is_list())
    refuse(at.file + ": " + at.path + " is " + kind_of(*list),
           "links between two ranks are a list of tables", "write them in [ ]");
  for (size_t i = 0; i < list->as_list().size(); ++i) {
    const Position item{at.file, at.path + "[" + std::to_string(i) + "]"};
    ConfigTable table(&list->as_list()[i], item.path, item.file);
    const std::pair<Rank, Rank> ranks = read_pair(table.raw("ranks"), item);
    if (!links.pairs.emplace(ranks, read_link(std::move(table), item, links.any)).second)
      refuse(item.file + ": " + item.path + " has the ranks of an earlier link",
             "two ranks have one link, in both directions", "remove one of the two");
  }
}

void read_axes(const Document* axes, const Position& at, LinkCosts& links) {
  if (!axes) return;
  if (!axes->is_table())
    refuse(at.file + ": " + at.path + " is " + kind_of(*axes),
           "links along mesh axes are a table by the name of the axis",
           "write axes = {node = {bandwidth = \"1 GB/s\"}}");
  for (const auto& [axis, link] : axes->as_table()) {
    const Position item = at / axis;
    links.axes[axis] = read_link(ConfigTable(&link, item.path, item.file), item, links.any);
  }
}

LinkCosts read_links(ConfigTable table, const Position& at) {
  LinkCosts links;
  read_latency_and_bandwidth(table, at, links.any);
  read_axes(table.raw("axes"), at / "axes", links);
  read_pairs(table.raw("pairs"), at / "pairs", links);
  table.finish();
  return links;
}

// ---- writing ----

Document time_of(Seconds seconds) {
  return quantity_text(seconds.value(), time_units());
}
Document byte_rate(double rate) {
  return quantity_text(rate, byte_rate_units());
}
Document arithmetic(double rate) {
  return quantity_text(rate, arithmetic_units());
}

Document document_of(const ClassRates& rates) {
  Document table = Document::Table{};
  if (rates.flops_per_second) table["arithmetic"] = arithmetic(*rates.flops_per_second);
  if (rates.bytes_per_second) table["memory"] = byte_rate(*rates.bytes_per_second);
  for (const auto& [dtype, rate] : rates.flops_per_second_of)
    table[to_text(dtype)] = arithmetic(rate);
  return table;
}

}  // namespace

Document to_document(const DeviceCost& device) {
  Document table;
  table["arithmetic"] = arithmetic(device.flops_per_second);
  table["memory"] = byte_rate(device.bytes_per_second);
  table["copies"] = byte_rate(device.copied_bytes_per_second);
  table["launch"] = time_of(device.launch);
  for (const auto& [operation, rates] : device.classes)
    table[to_text(operation)] = document_of(rates);
  return table;
}

Document to_document(const LinkCost& link) {
  Document table;
  table["latency"] = time_of(link.latency);
  table["bandwidth"] = byte_rate(link.bytes_per_second);
  return table;
}

namespace {

Document document_of(const LinkCosts& links) {
  Document table = to_document(links.any);
  for (const auto& [axis, link] : links.axes) table["axes"][axis] = to_document(link);
  for (const auto& [ranks, link] : links.pairs) {
    Document item;
    item["ranks"].append(ranks.first);
    item["ranks"].append(ranks.second);
    const Document values = to_document(link);
    for (const auto& [key, value] : values.as_table()) item[key] = value;
    table["pairs"].append(std::move(item));
  }
  return table;
}

}  // namespace

CostModel read_cost_model(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  const Document document = file.extension() == ".json" ? parse_json(text, file.string())
                                                        : parse_toml(text, file.string());
  return parse_cost_model(document, "", file.string());
}

CostModel parse_cost_model(const Document& document, const std::string& path,
                           const std::string& origin) {
  const Position at{origin, path};
  ConfigTable table(&document, path, origin);
  CostModel cost;
  ConfigTable device = table.table("device");
  read_device(device, at / "device", cost.device);
  device.finish();
  cost.links = read_links(table.table("links"), at / "links");
  ConfigTable copies = table.table("copies");
  const Position from = at / "copies";
  cost.host_to_device = read_link(copies.table("host_to_device"), from / "host_to_device", {});
  cost.device_to_host = read_link(copies.table("device_to_host"), from / "device_to_host", {});
  copies.finish();
  ConfigTable pipeline = table.table("pipeline");
  read(pipeline.raw("transfer"), at / "pipeline" / "transfer", share_units(), Least::kZero,
       cost.stage_transfer);
  pipeline.finish();
  table.finish();
  return cost;
}

DeviceCost read_device_cost(ConfigTable& table, const std::string& path, const std::string& file,
                            const DeviceCost& fallback) {
  DeviceCost device = fallback;
  read_device(table, {file, path}, device);
  return device;
}

LinkCost read_link_cost(ConfigTable& table, const std::string& path, const std::string& file,
                        const LinkCost& fallback) {
  LinkCost link = fallback;
  read_latency_and_bandwidth(table, {file, path}, link);
  return link;
}

Bytes read_byte_count(ConfigTable& table, const std::string& key, const std::string& path,
                      const std::string& file, Bytes fallback) {
  auto bytes = static_cast<double>(fallback.value());
  read(table.raw(key), Position{file, path} / key, byte_units(), Least::kZero, bytes);
  if (bytes > 0x1p62)
    refuse(file + ": " + (Position{file, path} / key).path + " is more than 4 EiB",
           "no device has so much memory", "correct its unit");
  return Bytes(static_cast<int64_t>(bytes));
}

Document to_document(const CostModel& cost) {
  Document document;
  document["device"] = to_document(cost.device);
  document["links"] = document_of(cost.links);
  document["copies"]["host_to_device"] = to_document(cost.host_to_device);
  document["copies"]["device_to_host"] = to_document(cost.device_to_host);
  document["pipeline"]["transfer"] = quantity_text(cost.stage_transfer, share_units());
  return document;
}

}  // namespace tessera
