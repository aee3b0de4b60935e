// The text form of a cost model: a TOML or JSON file, or a table in a plan. docs/costs.md lists its
// keys.
//
//     [device]
//     arithmetic = "20 Gflop/s"
//     memory = "5 GB/s"
//     copies = "10 GB/s"
//     launch = "2 us"
//     matmul = {arithmetic = "40 Gflop/s", bf16 = "80 Gflop/s"}
//
//     [links]
//     latency = "1 us"
//     bandwidth = "5 GB/s"
//     axes = {node = {latency = "10 us", bandwidth = "1 GB/s"}}
//     pairs = [{ranks = [0, 1], latency = "1 us", bandwidth = "50 GB/s"}]
//
//     [copies]
//     host_to_device = {latency = "10 us", bandwidth = "12 GB/s"}
//
//     [pipeline]
//     transfer = "1 %"
#pragma once

#include <filesystem>
#include <string>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "cluster/cost/cost_model.h"

namespace tessera {

/// Reads a cost file; what it does not name has its default. A file whose name ends with .json is
/// JSON, any other one is TOML.
///
///   throws  UserError: 66 for a missing file; 78 for a malformed file, an unknown key (with the
///           most similar legal one), a value without its unit, or a rate of 0
CostModel read_cost_model(const std::filesystem::path& file);

///   path    the key of the table in its file, "" for the whole file
///   origin  for messages
///   keys    receives every key that is asked for
///   throws  UserError (78) as read_cost_model
CostModel parse_cost_model(const Document& document, const std::string& path,
                           const std::string& origin, std::vector<ReadKey>* keys = nullptr);

/// All values of the model; parse_cost_model gives the same model again.
Document to_document(const CostModel& cost);

// Parts of cost files that other files have, too. The caller finishes the table.

/// The keys of `[device]`; what is absent is as in `fallback`.
DeviceCost read_device_cost(ConfigTable& table, const DeviceCost& fallback);
/// Element types with their rates, such as bf16 = "312 Tflop/s"; an absent one is as in `fallback`.
PeakRates read_peaks(ConfigTable& table, PeakRates fallback);
Document to_document(const PeakRates& peaks);
/// The keys `latency` and `bandwidth`.
LinkCost read_link_cost(ConfigTable& table, const LinkCost& fallback);
/// A number of bytes; an absent one is `fallback`.
Bytes read_byte_count(ConfigTable& table, const std::string& key, Bytes fallback);
/// A time; an absent one is `fallback`.
Seconds read_seconds(ConfigTable& table, const std::string& key, Seconds fallback);
Document to_document(const DeviceCost& device);
Document to_document(const LinkCost& link);

}  // namespace tessera
