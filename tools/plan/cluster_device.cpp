#include "tools/plan/cluster_device.h"

#include "framework/base/error.h"

namespace hexad::plan {

device::DeviceKind device_of(const Cluster& cluster) {
  return cluster.machine && cluster.machine->device == MachineDevice::cuda ? device::DeviceKind::cuda
                                                                           : device::DeviceKind::cpu;
}

config::Document on_device_of(const Cluster& cluster, const std::string& path, config::Document document,
                              const std::function<void(const std::string&)>& warn) {
  const std::string_view device = device::name_of(device_of(cluster));
  const config::Node* given = document.root.find("device");
  if (!given || given->kind == config::Node::Kind::null)
    config::override_key(document, base::cat("device=", device));
  else if (given->kind == config::Node::Kind::scalar && given->text != device)
    warn(base::cat("warning: ", given->at.text(), ": device is ", given->text, ", but the ranks of ", path,
                   " compute on ", device, cluster.machine ? " (machine.device)" : " (measured by hexad profile)",
                   ". The prediction is for ", given->text,
                   "; to predict for the cluster's device, set device=", device));
  return document;
}

}  // namespace hexad::plan
