#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/internal/import/machine_topology.h"
#include "cluster/cluster/internal/import/xml.h"

namespace tessera {
namespace {

constexpr const char* kSwitchClass = "0x068000";  // PCI class of an NVSwitch
constexpr const char* kGpuClass = "0x03";

/// Copies over PCIe reach 12 GB/s of the 15.75 GB/s of generation 3 with 16 lanes.
constexpr double kPciePart = 12 / 15.75;

/// "16.0 GT/s PCIe": its number; 0 for none.
double leading_number(std::string_view text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::isfinite(number) && number > 0 && number < 1e6 ? number : 0;
}

/// Up to 5 GT/s 8 of 10 bits are data, then 128 of 130.
double pcie_rate(double giga_transfers, int lanes) {
  const double coded = giga_transfers <= 5 ? 0.8 : 128.0 / 130;
  return kPciePart * giga_transfers * 1e9 * coded * lanes / 8;
}

class NcclReader {
 public:
  explicit NcclReader(std::string file) { topology_.source = std::move(file); }

  MachineTopology read(std::string_view text) {
    read_xml(
        text, topology_.source, [&](const XmlElement& element) { open(element); },
        [&](const std::string& name) { close(name); });
    if (gpus_.empty())
      refuse(1, "the topology has no GPUs", "it is read for the links between GPUs",
             "write it where GPUs are visible, with NCCL_TOPO_DUMP_FILE");
    std::ranges::stable_sort(gpus_, {}, &Gpu::number);
    fill_paths();
    fill_links();
    return topology_;
  }

 private:
  struct Link {
    std::string target;
    int count = 0, line = 0;
    std::string target_class;
  };
  struct Gpu {
    int number = 0, line = 0;
    std::string address;
    std::vector<int> above;  // the numbers of the bridges, the outermost one first
    int cpu = -1;
    std::vector<Link> links = {};
  };

  [[noreturn]] void refuse(int line, const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(topology_.source + ":" + std::to_string(line) + ": " + what, why, fix,
                    ExitCode::kBadConfig);
  }

  int integer(const XmlElement& element, const std::string& key, int smallest, int largest) const {
    const std::string text = element.attribute(key);
    int number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= smallest && number <= largest)
      return number;
    refuse(element.line, "<" + element.name + "> has " + key + "=\"" + text + "\"",
           "it is a number from " + std::to_string(smallest) + " to " + grouped(largest),
           "write the file anew with NCCL_TOPO_DUMP_FILE, or correct the attribute");
  }

  // ---- elements ----

  void open(const XmlElement& element) {
    if (elements_++ == 0 && element.name != "system")
      refuse(element.line, "the file begins with <" + element.name + ">",
             "a topology of NCCL begins with <system>", "name a file that NCCL wrote");
    if (element.name == "cpu") cpu_ = cpus_++;
    if (element.name == "pci") open_pci(element);
    if (element.name == "gpu") open_gpu(element);
    if (element.name == "nvlink") open_link(element);
    if (element.name == "net") open_net(element);
  }

  void close(const std::string& name) {
    if (name == "cpu") cpu_ = -1;
    if (name == "gpu") in_gpu_ = false;
    if (name == "pci" && !bridges_.empty()) bridges_.pop_back();
  }

  void open_pci(const XmlElement& element) {
    double rate = 0;
    if (const std::string width = element.attribute("link_width"); !width.empty())
      rate = pcie_rate(leading_number(element.attribute("link_speed")),
                       integer(element, "link_width", 0, 64));
    bridges_.push_back({pcis_++, element.attribute("busid"), rate});
  }

  void open_gpu(const XmlElement& element) {
    if (gpus_.size() == kMaxMachineDevices)
      refuse(element.line, "the topology has more than " + grouped(kMaxMachineDevices) + " GPUs",
             "it is that of one machine", "name the file of one machine");
    Gpu gpu{integer(element, "dev", 0, 1 << 16),
            element.line,
            bridges_.empty() ? "" : bridges_.back().address,
            {},
            cpu_};
    for (const Gpu& other : gpus_)
      if (other.number == gpu.number || (!gpu.address.empty() && other.address == gpu.address))
        refuse(element.line,
               "two GPUs are number " + std::to_string(gpu.number) + " or at '" + gpu.address + "'",
               "line " + std::to_string(other.line) + " has the other one",
               "name the file of one machine");
    for (size_t i = 0; i + 1 < bridges_.size(); ++i) gpu.above.push_back(bridges_[i].number);
    if (!element.attribute("sm").empty()) topology_.sm = integer(element, "sm", 10, 1000);
    double rate = 0;  // the slowest of the known links above
    for (const Bridge& bridge : bridges_)
      if (bridge.rate > 0) rate = rate > 0 ? std::min(rate, bridge.rate) : bridge.rate;
    double& all = topology_.pcie_bytes_per_second;
    if (rate > 0) all = all > 0 ? std::min(all, rate) : rate;
    gpus_.push_back(std::move(gpu));
    in_gpu_ = true;
  }

  void open_link(const XmlElement& element) {
    if (!in_gpu_)
      refuse(element.line, "an <nvlink> stands outside of a <gpu>", "links belong to a GPU",
             "write the file anew with NCCL_TOPO_DUMP_FILE");
    gpus_.back().links.push_back({element.attribute("target"),
                                  integer(element, "count", 1, kMaxNvLinks), element.line,
                                  element.attribute("tclass")});
  }

  void open_net(const XmlElement& element) {
    const int megabits =
        element.attribute("speed").empty() ? 0 : integer(element, "speed", 0, 100'000'000);
    if (topology_.cards.size() < kMaxMachineDevices)
      topology_.cards.push_back({element.attribute("name"), megabits * 1e6 / 8});
  }

  // ---- the machine ----

  void fill_paths() {
    topology_.devices = static_cast<int>(gpus_.size());
    topology_.paths.assign(gpus_.size() * gpus_.size(), PciPath::kSystem);
    topology_.nvlinks.assign(gpus_.size() * gpus_.size(), 0);
    for (size_t a = 0; a < gpus_.size(); ++a)
      for (size_t b = 0; b < gpus_.size(); ++b)
        topology_.paths[a * gpus_.size() + b] = path_of(gpus_[a], gpus_[b]);
  }

  static PciPath path_of(const Gpu& a, const Gpu& b) {
    if (a.cpu != b.cpu) return PciPath::kSystem;
    const auto ends = std::ranges::mismatch(a.above, b.above);
    const auto common = ends.in1 - a.above.begin();
    if (common == 0) return PciPath::kHost;
    const bool is_one = common == std::ssize(a.above) && common == std::ssize(b.above);
    return is_one ? PciPath::kBridge : PciPath::kBridges;
  }

  /// The links of each GPU to others and to switches; those to CPUs are no links between devices.
  void fill_links() {
    std::map<std::string, int> number_of;
    for (size_t i = 0; i < gpus_.size(); ++i)
      if (!gpus_[i].address.empty()) number_of.emplace(gpus_[i].address, i);
    std::vector<int> to_switches(gpus_.size(), 0);
    for (size_t a = 0; a < gpus_.size(); ++a)
      for (const Link& link : gpus_[a].links) {
        const auto found = number_of.find(link.target);
        if (found != number_of.end())
          topology_.nvlinks[a * gpus_.size() + found->second] += link.count;
        else if (link.target_class == kSwitchClass)
          to_switches[a] += link.count;
        else if (link.target_class.starts_with(kGpuClass))
          refuse(link.line, "an <nvlink> has target=\"" + link.target + "\"",
                 "no GPU of the topology has this address",
                 "name the file of a whole machine, in which all GPUs are visible");
      }
    check_links(to_switches);
  }

  void check_links(const std::vector<int>& to_switches) {
    for (int a = 0; a < topology_.devices; ++a) {
      if (to_switches[a] != to_switches[0])
        refuse(gpus_[a].line,
               "GPU " + std::to_string(gpus_[a].number) + " has " +
                   counted(to_switches[a], "NVLink") + " to switches and GPU " +
                   std::to_string(gpus_[0].number) + " " + std::to_string(to_switches[0]),
               "the switches join all GPUs alike", "name the file of a machine without a failure");
      for (int b = 0; b < a; ++b)
        if (topology_.links(a, b) != topology_.links(b, a))
          refuse(gpus_[a].line,
                 "GPU " + std::to_string(gpus_[a].number) + " names " +
                     counted(topology_.links(a, b), "NVLink") + " to GPU " +
                     std::to_string(gpus_[b].number) + ", which names " +
                     std::to_string(topology_.links(b, a)),
                 "the links between two devices serve both directions",
                 "write the file anew with NCCL_TOPO_DUMP_FILE");
    }
    topology_.switch_links = to_switches.empty() ? 0 : to_switches[0];
  }

  struct Bridge {
    int number = 0;
    std::string address;
    double rate = 0;
  };

  MachineTopology topology_;
  std::vector<Gpu> gpus_;
  std::vector<Bridge> bridges_;  // the open ones
  int elements_ = 0, pcis_ = 0, cpus_ = 0, cpu_ = -1;
  bool in_gpu_ = false;
};

}  // namespace

MachineTopology parse_nccl_topology(std::string_view text, const std::string& file) {
  return NcclReader(file).read(text);
}

}  // namespace tessera
