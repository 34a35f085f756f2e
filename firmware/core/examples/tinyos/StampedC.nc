/* A TinyOS 2 application: a reading every five seconds, stamped. FTSP gives the network's time. */
#include <causeway/mote.h>

configuration StampedC {}
implementation
{
    components MainC, StampedP, ActiveMessageC, TimeSync32kC;
    components new TimerMilliC(), new DemoSensorC();
    components new AMSenderC(CAUSEWAY_AM_DATA), new AMReceiverC(CAUSEWAY_AM_DATA);

    MainC.SoftwareInit -> TimeSync32kC;
    TimeSync32kC.Boot -> MainC;
    StampedP.Boot -> MainC;
    StampedP.Radio -> ActiveMessageC;
    StampedP.AMSend -> AMSenderC;
    StampedP.Receive -> AMReceiverC;
    StampedP.Timer -> TimerMilliC;
    StampedP.Read -> DemoSensorC;
    StampedP.GlobalTime -> TimeSync32kC;
}
