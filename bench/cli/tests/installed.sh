#!/bin/sh
# What bench/cli/tests/installed.rs runs in a clean Debian that systemd has booted. It puts the manual's commands at the
# places of @NAME@.

exec >/dev/ttyS0 2>&1
set -eu
trap 'echo "== end $?"; systemctl --no-block poweroff --force --force' EXIT
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive
cd /packages

say() { echo "== $*"; }
apt() { command apt -qq -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log && exit 1; }; }
uptime_s() { cut -d. -f1 /proc/uptime; }
state() {
	find / -xdev ! -path "/packages*" ! -path "/proc/*" ! -path "/tmp/*" ! -path "/var/cache/*" ! -path "/var/lib/apt/*" \
		! -path "/var/lib/dpkg/*" ! -path "/var/log/*" ! -path "/etc/*-" | sort
	find /run ! -path "/run/log/*" ! -path "/run/systemd/*" | sort
	find /sys/fs/bpf -exec stat -c "%a %U %G %n" {} +
	systemctl list-unit-files --no-legend | cut -d" " -f1
	cat /etc/group /proc/sys/net/ipv4/tcp_available_congestion_control
}
state >/tmp/before

say install
began_s=$(uptime_s)
@INSTALL@
@DOCTOR@
perl -MIO::Socket -e '$from = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:5000")->accept; sleep 1' &
sleep 0.5
@RUN@ perl -MIO::Socket -e 'print { IO::Socket::INET->new("127.0.0.1:5000") } "x" x 100000'
say first flow after $(($(uptime_s) - began_s)) s

say boot unit
hotcc load dtcp
@BOOT@
hotcc unload dtcp
systemctl restart hotcc
hotcc get dtcp eta

say exporter
@EXPORTER@
perl -MIO::Socket -e '$s = IO::Socket::INET->new("127.0.0.1:9717") or die; print $s "GET /metrics HTTP/1.0\r\n\r\n"; print <$s>' |
	grep hotcc_algorithm_loaded

say feeder
printf '%s\n' 'source = ["udp:127.0.0.1:9000"]' 'link = ["10.45.0.0/16"]' >>/etc/hotcc/feeder.toml
@FEEDER@
grep Uid: "/proc/$(systemctl show -P MainPID sinr-feeder)/status"
perl -MIO::Socket -e 'IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1:9000")->send("{\"sinr_db\":7}")'
sleep 0.5
sinr-feeder show
@REPORT@
grep -e udp:127.0.0.1:9000 -e '"journalctl' /tmp/report.json

say credentials
(umask 077 && printf '1 %064d 10.46.0.0/16\n' 7 >/etc/hotcc/radio.keys)
mkdir /etc/systemd/system/sinr-feeder.service.d
printf '%s\n' "[Service]" LoadCredential=radio.keys:/etc/hotcc/radio.keys >/etc/systemd/system/sinr-feeder.service.d/override.conf
sed -i 's|^source = .*|source = ["udp:127.0.0.1:9000", "peer:127.0.0.1:9001,keys=/run/credentials/sinr-feeder.service/radio.keys"]|' \
	/etc/hotcc/feeder.toml
systemctl daemon-reload
systemctl restart sinr-feeder
echo '{"sinr_db":9}' | sinr-feeder run --source stdin --publish peer:127.0.0.1:9001,keys=/etc/hotcc/radio.keys --as car
sleep 0.5
sinr-feeder show
rm -r /etc/systemd/system/sinr-feeder.service.d
sed -i 's|^source = .*|source = ["udp:127.0.0.1:9000"]|' /etc/hotcc/feeder.toml
systemctl daemon-reload
systemctl restart sinr-feeder

say upgrade
perl /packages/sender.pl dtcp &
sender=$!
until [ -s /tmp/sent ]; do sleep 0.1; done
feeder=$(systemctl show -P MainPID sinr-feeder)
apt install --reinstall ./hotcc_*.deb
sent=$(cat /tmp/sent)
until [ "$(cat /tmp/sent)" -gt "$sent" ]; do kill -0 $sender && sleep 0.1; done
[ "$feeder" != "$(systemctl show -P MainPID sinr-feeder)" ]
systemctl is-active hotcc hotcc-exporter sinr-feeder
hotcc flows --cc dtcp --sort bytes
kill $sender
wait $sender || true

say purge
@PURGE@
state >/tmp/after
diff /tmp/before /tmp/after && say nothing is left
