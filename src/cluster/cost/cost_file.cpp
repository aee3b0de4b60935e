#include "cluster/cost/cost_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/config_table.h"
#include "base/files/file.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

enum class Least { kZero, kMoreThanZero };

/// Reads a quantity, and says whether it is there.
///   fallback  what holds when it is absent, for the reference
///   listed    as in ValueForm
bool read(ConfigTable& table, std::string_view key, const UnitTable& units, Least smallest,
          double& target, const std::string& fallback, const std::string& listed = "") {
  const std::string name(key);
  const std::string range = smallest == Least::kZero ? "at least 0" : "above 0";
  const Document* value = table.raw(name, {.type = "text: " + std::string(units.quantity),
                                           .fallback = fallback,
                                           .range = range + ", in " + unit_names(units),
                                           .listed = listed});
  if (!value) return false;
  const std::string found = table.file() + ": " + table.full(name) + " is " + to_json(*value);
  const std::optional<double> number =
      value->is_string() ? parse_quantity(value->as_string(), units) : std::nullopt;
  if (!number)
    refuse_config(
        found,
        "it is " + std::string(units.quantity) + ": a number and its unit, " + unit_names(units),
        "write it as \"" + std::string(units.example) + "\"");
  const bool is_in_range = smallest == Least::kZero ? *number >= 0 : *number > 0;
  if (!is_in_range || !std::isfinite(*number))
    refuse_config(found, std::string(units.quantity) + " is finite and " + range,
                  "write a number " + (smallest == Least::kZero ? "of " + range : range));
  target = *number;
  return true;
}

std::string as_fallback(double value, const UnitTable& units) {
  return to_json(quantity_text(value, units));
}

void read_time(ConfigTable& table, std::string_view key, Seconds& target) {
  double seconds = target.value();
  read(table, key, time_units(), Least::kZero, seconds, as_fallback(seconds, time_units()));
  target = Seconds(seconds);
}

void read_rate(ConfigTable& table, std::string_view key, const UnitTable& units, double& target) {
  read(table, key, units, Least::kMoreThanZero, target, as_fallback(target, units));
}

/// A rate that is as for the device when it is absent.
std::optional<double> read_own_rate(ConfigTable& table, std::string_view key,
                                    const UnitTable& units, const std::string& listed = "") {
  double rate = 0;
  const bool is_there = read(table, key, units, Least::kMoreThanZero, rate, "", listed);
  return is_there ? std::optional(rate) : std::nullopt;
}

// ---- device ----

/// A table by size: {"64 kB" = "100 GB/s", "1 GB" = "10 GB/s"}.
void read_curve(ConfigTable& table, const std::string& key, const UnitTable& sizes,
                const UnitTable& values, SizeCurve& curve) {
  const Document* value = table.raw(
      key, {.type = "table by size",
            .range = std::string(values.quantity) + " by " + std::string(sizes.quantity)});
  if (!value) return;
  const std::string at = table.file() + ": " + table.full(key);
  if (!value->is_table() || value->as_table().empty())
    refuse_config(at + " is " + kind_of(*value), "it is a table of values by their sizes",
                  "write " + key + " = {\"" + std::string(sizes.example) + "\" = \"" +
                      std::string(values.example) + "\"}");
  curve = {};
  for (const auto& [size, found] : value->as_table()) {
    const std::optional<double> x = parse_quantity(size, sizes);
    const std::optional<double> y =
        found.is_string() ? parse_quantity(found.as_string(), values) : std::nullopt;
    const auto is_positive = [](const std::optional<double>& number) {
      return number && *number > 0 && std::isfinite(*number);
    };
    if (!is_positive(x) || !is_positive(y))
      refuse_config(
          at + " has '" + size + "' = " + to_json(found),
          "it has " + std::string(values.quantity) + " (" + unit_names(values) + ") by " +
              std::string(sizes.quantity) + " (" + unit_names(sizes) + "), each above 0",
          "write \"" + std::string(sizes.example) + "\" = \"" + std::string(values.example) + "\"");
    curve.points.push_back({*x, *y});
  }
  std::sort(curve.points.begin(), curve.points.end(),
            [](const auto& a, const auto& b) { return a.size < b.size; });
  for (size_t i = 1; i < curve.points.size(); ++i)
    if (curve.points[i].size == curve.points[i - 1].size)
      refuse_config(at + " has a size twice", "each size has one value", "remove one of the two");
}

void read_rates_by_type(ConfigTable& table, std::map<DType, double>& rates) {
  for (const DTypeTraits& dtype : kDTypes)
    if (const auto rate = read_own_rate(table, dtype.text, arithmetic_units(), "TYPE"))
      rates[dtype.dtype] = *rate;
}

void read_class(ConfigTable table, ClassRates& rates) {
  if (const auto rate = read_own_rate(table, "arithmetic", arithmetic_units()))
    rates.flops_per_second = rate;
  if (const auto rate = read_own_rate(table, "memory", byte_rate_units()))
    rates.bytes_per_second = rate;
  if (double launch = 0; read(table, "launch", time_units(), Least::kZero, launch, ""))
    rates.launch = Seconds(launch);
  read_curve(table, "efficiency", work_units(), share_units(), rates.efficiency);
  read_curve(table, "memory_at", byte_units(), byte_rate_units(), rates.bytes_per_second_at);
  read_curve(table, "row_efficiency", work_units(), share_units(), rates.row_efficiency);
  if (const auto rate = read_own_rate(table, "copies", byte_rate_units()))
    rates.copied_bytes_per_second = rate;
  rates.half_extent = table.number("half_extent", rates.half_extent, 0, 1e6);
  rates.time_factor = table.number("time_factor", rates.time_factor, 1e-3, 1e3);
  read_rates_by_type(table, rates.flops_per_second_of);
  table.finish();
}

void read_device(ConfigTable& table, DeviceCost& device) {
  read_rate(table, "arithmetic", arithmetic_units(), device.flops_per_second);
  read_rate(table, "memory", byte_rate_units(), device.bytes_per_second);
  read_rate(table, "copies", byte_rate_units(), device.copied_bytes_per_second);
  read_rate(table, "file", byte_rate_units(), device.file_bytes_per_second);
  read_time(table, "launch", device.launch);
  device.launch_factor = table.number("launch_factor", device.launch_factor, 1e-3, 1e3);
  device.fused = table.number("fused", device.fused, 1e-3, 1);
  for (const OperationClassName& name : kOperationClasses)
    if (const std::string key(name.text); table.raw(key, {.listed = "CLASS"}))
      read_class(table.table(key, "CLASS"), device.classes[name.operation]);
  const Document* kernels = table.raw("kernels", {.fallback = "{}"});
  if (!kernels) return;
  if (!kernels->is_table())
    refuse_config(table.file() + ": " + table.full("kernels") + " is " + kind_of(*kernels),
                  "rates of kernels are a table by the name of the kernel",
                  "write kernels = {\"unary.exp\" = {memory = \"1 GB/s\"}}");
  for (const auto& [kernel, rates] : kernels->as_table())
    read_class(table.inside(rates, "kernels." + kernel, "kernels.KERNEL"), device.kernels[kernel]);
}

// ---- links ----

void read_latency_and_bandwidth(ConfigTable& table, LinkCost& link) {
  read_time(table, "latency", link.latency);
  read_rate(table, "bandwidth", byte_rate_units(), link.bytes_per_second);
  read_time(table, "start", link.start);
}

/// What a link of its own does not say is as between any two ranks.
LinkCost read_link(ConfigTable table, const LinkCost& any) {
  LinkCost link = any;
  read_latency_and_bandwidth(table, link);
  table.finish();
  return link;
}

/// `path` is that of the link.
std::pair<Rank, Rank> read_pair(ConfigTable& table, const std::string& path) {
  const Document* ranks = table.raw("ranks", {.type = "list of integers", .range = "two ranks"});
  const auto is_rank = [](const Document& item) {
    return item.is_int() && item.as_int() >= 0 && item.as_int() <= std::numeric_limits<Rank>::max();
  };
  if (!ranks || !ranks->is_list() || ranks->as_list().size() != 2 ||
      !is_rank(ranks->as_list()[0]) || !is_rank(ranks->as_list()[1]) ||
      ranks->as_list()[0] == ranks->as_list()[1])
    refuse_config(table.file() + ": " + path + " is not a link between two ranks",
                  "its 'ranks' are the numbers of two ranks", "write ranks = [0, 1]");
  const auto a = static_cast<Rank>(ranks->as_list()[0].as_int());
  const auto b = static_cast<Rank>(ranks->as_list()[1].as_int());
  return std::minmax(a, b);
}

void read_pairs(ConfigTable& table, LinkCosts& links) {
  const Document* list = table.raw("pairs", {.type = "list of tables", .fallback = "[]"});
  if (!list) return;
  const std::string at = table.full("pairs");
  if (!list->is_list())
    refuse_config(table.file() + ": " + at + " is " + kind_of(*list),
                  "links between two ranks are a list of tables", "write them in [ ]");
  for (size_t i = 0; i < list->as_list().size(); ++i) {
    const std::string number = "[" + std::to_string(i) + "]";
    ConfigTable item = table.inside(list->as_list()[i], "pairs" + number, "pairs[]");
    const std::pair<Rank, Rank> ranks = read_pair(item, at + number);
    if (!links.pairs.emplace(ranks, read_link(std::move(item), links.any)).second)
      refuse_config(table.file() + ": " + at + number + " has the ranks of an earlier link",
                    "two ranks have one link, in both directions", "remove one of the two");
  }
}

void read_axes(ConfigTable& table, LinkCosts& links) {
  const Document* axes = table.raw("axes", {.fallback = "{}"});
  if (!axes) return;
  if (!axes->is_table())
    refuse_config(table.file() + ": " + table.full("axes") + " is " + kind_of(*axes),
                  "links along mesh axes are a table by the name of the axis",
                  "write axes = {node = {bandwidth = \"1 GB/s\"}}");
  for (const auto& [axis, link] : axes->as_table())
    links.axes[axis] = read_link(table.inside(link, "axes." + axis, "axes.AXIS"), links.any);
}

/// "dp_ib:2".
AxisLevel read_level(const std::string& text, const ConfigTable& table) {
  const size_t colon = text.find(':');
  AxisLevel level{text.substr(0, colon), 0};
  const std::string size = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), level.size);
  if (error != std::errc() || end != size.data() + size.size() || level.size < 2 ||
      level.name.empty())
    refuse_config(table.file() + ": " + table.full("levels") + " has '" + text + "'",
                  "a level has the name of its axis, a colon, and a size from 2",
                  "write it as in levels = {dp = [\"dp_ib:2\", \"dp_nvlink:8\"]}");
  return level;
}

void read_levels(ConfigTable& table, LinkCosts& links) {
  const Document* levels = table.raw("levels", {.fallback = "{}"});
  if (!levels) return;
  if (!levels->is_table())
    refuse_config(table.file() + ": " + table.full("levels") + " is " + kind_of(*levels),
                  "the levels of mesh axes are a table by the name of the axis",
                  "write levels = {dp = [\"dp_ib:2\", \"dp_nvlink:8\"]}");
  for (const auto& [axis, list] : levels->as_table()) {
    if (!list.is_list())
      refuse_config(table.file() + ": " + table.full("levels." + axis) + " is " + kind_of(list),
                    "it lists the levels of the axis, the outermost first",
                    "write it as in levels = {dp = [\"dp_ib:2\", \"dp_nvlink:8\"]}");
    for (const Document& level : list.as_list())
      links.levels[axis].push_back(
          read_level(level.is_string() ? level.as_string() : to_json(level), table));
  }
}

LinkCosts read_links(ConfigTable table) {
  LinkCosts links;
  read_latency_and_bandwidth(table, links.any);
  read_axes(table, links);
  read_levels(table, links);
  read_pairs(table, links);
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

Document document_of(const SizeCurve& curve, const UnitTable& sizes, const UnitTable& values) {
  Document table = Document::Table{};
  for (const SizeCurve::Point& point : curve.points)
    table[quantity_text(point.size, sizes)] = quantity_text(point.value, values);
  return table;
}

Document document_of(const ClassRates& rates) {
  Document table = Document::Table{};
  if (rates.flops_per_second) table["arithmetic"] = arithmetic(*rates.flops_per_second);
  if (rates.bytes_per_second) table["memory"] = byte_rate(*rates.bytes_per_second);
  if (rates.launch) table["launch"] = time_of(*rates.launch);
  if (!rates.efficiency.empty())
    table["efficiency"] = document_of(rates.efficiency, work_units(), share_units());
  if (!rates.bytes_per_second_at.empty())
    table["memory_at"] = document_of(rates.bytes_per_second_at, byte_units(), byte_rate_units());
  if (!rates.row_efficiency.empty())
    table["row_efficiency"] = document_of(rates.row_efficiency, work_units(), share_units());
  if (rates.copied_bytes_per_second) table["copies"] = byte_rate(*rates.copied_bytes_per_second);
  if (rates.half_extent != 0) table["half_extent"] = rates.half_extent;
  if (rates.time_factor != 1) table["time_factor"] = rates.time_factor;
  for (const auto& [dtype, rate] : rates.flops_per_second_of)
    table[to_text(dtype)] = arithmetic(rate);
  return table;
}

}  // namespace

PeakRates read_peaks(ConfigTable& table, PeakRates fallback) {
  read_rates_by_type(table, fallback);
  return fallback;
}

Document to_document(const PeakRates& peaks) {
  Document table;
  for (const auto& [dtype, rate] : peaks) table[to_text(dtype)] = arithmetic(rate);
  return table;
}

Document to_document(const DeviceCost& device) {
  Document table;
  table["arithmetic"] = arithmetic(device.flops_per_second);
  table["memory"] = byte_rate(device.bytes_per_second);
  table["copies"] = byte_rate(device.copied_bytes_per_second);
  if (device.file_bytes_per_second != DeviceCost{}.file_bytes_per_second)
    table["file"] = byte_rate(device.file_bytes_per_second);
  table["launch"] = time_of(device.launch);
  if (device.launch_factor != 1) table["launch_factor"] = device.launch_factor;
  if (device.fused != 1) table["fused"] = device.fused;
  for (const auto& [operation, rates] : device.classes)
    table[to_text(operation)] = document_of(rates);
  for (const auto& [kernel, rates] : device.kernels) table["kernels"][kernel] = document_of(rates);
  return table;
}

Document to_document(const LinkCost& link) {
  Document table;
  table["latency"] = time_of(link.latency);
  table["bandwidth"] = byte_rate(link.bytes_per_second);
  if (link.start > Seconds(0)) table["start"] = time_of(link.start);
  return table;
}

namespace {

Document document_of(const LinkCosts& links) {
  Document table = to_document(links.any);
  for (const auto& [axis, link] : links.axes) table["axes"][axis] = to_document(link);
  for (const auto& [axis, levels] : links.levels)
    for (const AxisLevel& level : levels)
      table["levels"][axis].append(level.name + ":" + std::to_string(level.size));
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
                           const std::string& origin, std::vector<ReadKey>* keys) {
  ConfigTable table(&document, path, origin, keys);
  CostModel cost;
  ConfigTable device = table.table("device");
  read_device(device, cost.device);
  device.finish();
  cost.links = read_links(table.table("links"));
  ConfigTable copies = table.table("copies");
  cost.host_to_device = read_link(copies.table("host_to_device"), {});
  cost.device_to_host = read_link(copies.table("device_to_host"), {});
  copies.finish();
  ConfigTable pipeline = table.table("pipeline");
  read(pipeline, "transfer", share_units(), Least::kZero, cost.stage_transfer,
       as_fallback(cost.stage_transfer, share_units()));
  pipeline.finish();
  cost.cluster = table.text("cluster", "");
  table.finish();
  return cost;
}

DeviceCost read_device_cost(ConfigTable& table, const DeviceCost& fallback) {
  DeviceCost device = fallback;
  read_device(table, device);
  return device;
}

LinkCost read_link_cost(ConfigTable& table, const LinkCost& fallback) {
  LinkCost link = fallback;
  read_latency_and_bandwidth(table, link);
  return link;
}

Bytes read_byte_count(ConfigTable& table, const std::string& key, Bytes fallback) {
  auto bytes = static_cast<double>(fallback.value());
  read(table, key, byte_units(), Least::kZero, bytes, as_fallback(bytes, byte_units()));
  if (bytes > 0x1p62)
    refuse_config(table.file() + ": " + table.full(key) + " is more than 4 EiB",
                  "no device has so much memory", "correct its unit");
  return Bytes(static_cast<int64_t>(bytes));
}

Seconds read_seconds(ConfigTable& table, const std::string& key, Seconds fallback) {
  read_time(table, key, fallback);
  return fallback;
}

Document to_document(const CostModel& cost) {
  Document document;
  document["device"] = to_document(cost.device);
  document["links"] = document_of(cost.links);
  document["copies"]["host_to_device"] = to_document(cost.host_to_device);
  document["copies"]["device_to_host"] = to_document(cost.device_to_host);
  document["pipeline"]["transfer"] = quantity_text(cost.stage_transfer, share_units());
  if (!cost.cluster.empty()) document["cluster"] = cost.cluster;
  return document;
}

}  // namespace tessera
