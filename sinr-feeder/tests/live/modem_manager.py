"""A ModemManager on the system bus that DBUS_SYSTEM_BUS_ADDRESS names, made of python-dbusmock.

Reads commands, one per line: `modem` (one appears), `gone` (it disappears), `Lte snr=12.5 rsrp=-95` (what it reports of a
radio; without values: nothing), `rate` (answers with the period that was asked for, in seconds).
"""

import subprocess
import sys
import time

import dbus

SERVICE = "org.freedesktop.ModemManager1"
ROOT = "/org/freedesktop/ModemManager1"
MODEM = ROOT + "/Modem/0"
SIGNAL = SERVICE + ".Modem.Signal"
MOCK = "org.freedesktop.DBus.Mock"

server = subprocess.Popen(
    [sys.executable, "-m", "dbusmock", "--system", "-m", SERVICE, ROOT, SERVICE], stdout=subprocess.DEVNULL
)
try:
    bus = dbus.SystemBus()
    while not bus.name_has_owner(SERVICE):
        if server.poll() is not None:
            sys.exit("dbusmock did not start")
        time.sleep(0.01)
    root = dbus.Interface(bus.get_object(SERVICE, ROOT), MOCK)
    nothing = dbus.Dictionary({}, signature="sv")
    print("ready", flush=True)
    for line in sys.stdin:
        command, *values = line.split()
        if command == "modem":
            setup = f"self.Set('{SIGNAL}', 'Rate', dbus.UInt32(args[0]))"
            known = {"Rate": dbus.UInt32(0), "Lte": nothing, "Nr5g": nothing}
            root.AddObject(MODEM, SIGNAL, known, [("Setup", "u", "", setup)])
        elif command == "gone":
            root.RemoveObject(MODEM)
        else:
            modem = bus.get_object(SERVICE, MODEM)
            properties = dbus.Interface(modem, dbus.PROPERTIES_IFACE)
            if command == "rate":
                print(properties.Get(SIGNAL, "Rate"), flush=True)
            else:
                pairs = (value.split("=") for value in values)
                known = dbus.Dictionary({key: dbus.Double(value) for key, value in pairs}, signature="sv")
                properties.Set(SIGNAL, command, known)
finally:
    server.terminate()
