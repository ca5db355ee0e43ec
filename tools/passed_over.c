/* What a tool says where no GPU can be used; also in appliances. */
#include "hcq/hcq.h"
#include "tools/tools.h"

void
tool_tell_passed_over(struct hcq_device *dev)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};

    hcq_device_info(dev, &info);
    if (info.flags & HCQ_DEVICE_HOST_CPU && hcq_device_passed_over(dev)[0])
        tool_eprintf("doorbell: computing on %s: no GPU can be used: %s\n",
                     info.name, hcq_device_passed_over(dev));
}
