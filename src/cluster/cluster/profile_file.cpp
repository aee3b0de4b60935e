#include "cluster/cluster/profile_file.h"

#include <array>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "cluster/cluster/internal/choices.h"
#include "cluster/cost/cost_file.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

constexpr std::array kFusions{Fusion::kNone, Fusion::kLayers, Fusion::kAll};
constexpr std::array kAttentionKernels{AttentionKernel::kBlocked, AttentionKernel::kScores};

void read_part(ConfigTable& table, const std::string& key, double& part) {
  part = table.number(key, part, 1e-3, 1e3);
}

void read_links(ConfigTable table, LinkReach& links) {
  read_part(table, "bandwidth", links.bandwidth);
  links.start = read_seconds(table, "start", links.start);
  links.hop = read_seconds(table, "hop", links.hop);
  table.finish();
}

Document time_text(Seconds time) {
  return quantity_text(time.value(), time_units());
}

Document document_of(const LinkReach& links) {
  Document table;
  table["bandwidth"] = links.bandwidth;
  table["start"] = time_text(links.start);
  table["hop"] = time_text(links.hop);
  return table;
}

}  // namespace

RuntimeProfile read_profile(ConfigTable& table) {
  RuntimeProfile profile =
      *find_runtime_profile(table.choice("profile", RuntimeProfile{}.name, runtime_names()));
  profile.fusion = choice_of(table, "fusion", kFusions, profile.fusion);
  profile.attention = choice_of(table, "attention", kAttentionKernels, profile.attention);
  profile.score_passes = table.number("score_passes", profile.score_passes, 0, 1000);
  profile.host = read_seconds(table, "host", profile.host);
  profile.gap = read_seconds(table, "gap", profile.gap);
  profile.constant = read_seconds(table, "constant", profile.constant);
  profile.overlaps = table.boolean("overlaps", profile.overlaps);
  profile.libraries = read_byte_count(table, "libraries", profile.libraries);
  profile.margin = table.number("margin", profile.margin, 0, 1);
  Reach& reach = profile.reach;
  ConfigTable parts = table.table("reach");
  read_part(parts, "products", reach.products);
  reach.half_extent = parts.number("half_extent", reach.half_extent, 0, 1e6);
  read_part(parts, "attention", reach.attention);
  read_part(parts, "memory", reach.memory);
  read_links(parts.table("inside"), reach.inside);
  read_links(parts.table("network"), reach.network);
  parts.finish();
  profile.low = table.number("low", profile.low, 0, 1);
  profile.high = table.number("high", profile.high, 0, 100);
  profile.source = table.text("source", profile.source);
  return profile;
}

Document to_document(const RuntimeProfile& profile) {
  Document table;
  table["profile"] = profile.name;
  table["fusion"] = std::string(to_text(profile.fusion));
  table["attention"] = std::string(to_text(profile.attention));
  table["score_passes"] = profile.score_passes;
  table["host"] = time_text(profile.host);
  table["gap"] = time_text(profile.gap);
  table["constant"] = time_text(profile.constant);
  table["overlaps"] = profile.overlaps;
  table["libraries"] = quantity_text(static_cast<double>(profile.libraries.value()), byte_units());
  table["margin"] = profile.margin;
  if (profile.high > 0) {
    table["low"] = profile.low;
    table["high"] = profile.high;
  }
  table["source"] = profile.source;
  Document& reach = table["reach"];
  reach["products"] = profile.reach.products;
  reach["half_extent"] = profile.reach.half_extent;
  reach["attention"] = profile.reach.attention;
  reach["memory"] = profile.reach.memory;
  reach["inside"] = document_of(profile.reach.inside);
  reach["network"] = document_of(profile.reach.network);
  return table;
}

RuntimeProfile profile_called(const std::string& name_or_file) {
  if (const RuntimeProfile* found = find_runtime_profile(name_or_file)) return *found;
  if (!path_exists(name_or_file))
    throw UserError("there is no runtime profile '" + name_or_file + "'",
                    "it is one of " + join(runtime_names(), ", ") + ", or a file of a profile",
                    "use one of them, or leave it out", ExitCode::kMissingInput);
  const Document document = parse_toml(read_file(name_or_file), name_or_file);
  ConfigTable table(&document, "", name_or_file);
  RuntimeProfile profile = read_profile(table);
  table.finish();
  return profile;
}

void write_profile(const std::filesystem::path& file, const RuntimeProfile& profile) {
  write_file(file, to_toml(to_document(profile)));
}

}  // namespace tessera
