// The device for which steps on a cluster are predicted.
#pragma once

#include <functional>
#include <string>

#include "framework/config/document.h"
#include "framework/device/device_kind.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Returns machine.device. Returns cpu if the cluster file has only measurements, because `hexad profile` measures
/// CPUs.
device::DeviceKind device_of(const Cluster& cluster);

/// Returns the recipe `document` with `device` set to device_of(`cluster`), as if by an override on the command line.
/// Returns the document unchanged if the recipe sets this key. Passes one line to `warn` if the recipe's device differs
/// from device_of(`cluster`). `path` is the path of the cluster file.
config::Document on_device_of(const Cluster& cluster, const std::string& path, config::Document document,
                              const std::function<void(const std::string&)>& warn);

}  // namespace hexad::plan
