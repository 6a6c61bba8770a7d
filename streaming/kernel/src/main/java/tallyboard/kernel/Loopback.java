package tallyboard.kernel;

import io.netty.bootstrap.ChannelInitializerExtension;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelOutboundHandlerAdapter;
import io.netty.channel.ChannelPromise;
import io.netty.channel.ServerChannel;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;

/**
 * Has what would listen on every interface listen on this machine alone.
 *
 * <p>Real-time Mode opens a port for each task that hands rows on, on every interface, without
 * authentication, and no setting of Spark's changes that. Netty loads this class where the job runs
 * on one machine: see streaming/session.py.
 */
public final class Loopback extends ChannelInitializerExtension {
  @Override
  public void postInitializeServerListenerChannel(ServerChannel channel) {
    channel.pipeline().addLast(new Binding());
  }

  private static final class Binding extends ChannelOutboundHandlerAdapter {
    @Override
    public void bind(ChannelHandlerContext context, SocketAddress address, ChannelPromise promise) {
      context.bind(narrowed(address), promise);
    }
  }

  private static SocketAddress narrowed(SocketAddress address) {
    return address instanceof InetSocketAddress inet && inet.getAddress().isAnyLocalAddress()
        ? new InetSocketAddress(InetAddress.getLoopbackAddress(), inet.getPort()) : address;
  }
}
